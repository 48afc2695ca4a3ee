// React and the page's policy treat all tags alike. So there is one of each kind: what runs a script, adds an element,
// leaves the page, or is no markup.
const payloads = [
  '<script>pwned()</script>',
  '<img src=x onerror="pwned()" alt=é🔔>',
  '<iframe srcdoc="<script>parent.pwned()</script>"></iframe>',
  '<meta http-equiv="refresh" content="0;url=//evil.example">',
  'javascript:pwned()',
  '{"__html":"<img src=x onerror=pwned()>","dangerouslySetInnerHTML":{"__html":"<b>x</b>"}}',
]

// Each closes what may surround the text: a tag, an attribute, a script or a comment.
const openings = [
  '',
  '" onmouseover="pwned()" x="',
  '</script></title></textarea></style>',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a template engine would run this.
  '-->]]>\u0000\u2028${pwned()}{{constructor.constructor("pwned()")()}}',
]

/** Of none of these a reader sees anything. */
export const invisibleTexts: readonly string[] = [
  '',
  ' \n\u0000\u0085\u00A0\u2028\u3000',
  '\u061C\u200E\u200F\u202A\u202B\u202C\u202D\u202E\u2066\u2067\u2068\u2069',
  '\u200B',
  '\u200C\u200D\u2060\uFEFF',
  '\u00AD\u034F\u180E\u2063',
  '\u3164',
  '\u115F\u1160\uFFA0',
  '\u2800 \u2800',
  '\uFE0F\u{E0100}',
  '\u{E0067}\u{E007F}',
  '\u{1D159}\u{1D173}',
  '\uFFF9\uFFFB',
  '\u0301\u20DD',
]

/** Each is one character to its reader. */
export const longCharacters: readonly string[] = [
  '💥',
  '👨‍👩‍👧‍👦',
  '👍🏽',
  '❤️',
  '1️⃣',
  '🇩🇪',
  '🏴\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}',
  'e\u0301\u0323',
  '한'.normalize('NFD'),
  'क्षि',
]

/** Strings that must always stay plain text. The router's own parser would read the last ones as JSON. */
export const hostileStrings: readonly string[] = [
  ...openings.flatMap((opening) => payloads.map((payload) => opening + payload)),
  ...['12345678901234567890', 'null', 'a+b/=='],
]
