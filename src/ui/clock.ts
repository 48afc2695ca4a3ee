/** How a time of day looks. The page is in English, so its times are too. */
export const clock = new Intl.DateTimeFormat('en', { timeStyle: 'short' })
