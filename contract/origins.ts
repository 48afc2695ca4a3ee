/** The origins that VITE_CONTACT_FORM_ORIGINS lists. */
export const originsIn = (setting = ''): string[] =>
  setting.split(',').flatMap((origin) => origin.trim() || [])
