// Each tries to run `pwned()`, to add an element to the page, or to leave the page.
const payloads = [
  '<script>pwned()</script>',
  '<ScRiPt src=//evil.example/x.js></sCrIpT>',
  '<img src=x onerror=pwned()>',
  '<img src=x onerror="pwned()" alt=é🔔>',
  '<svg onload=pwned()>',
  '<svg><script>pwned()</script></svg>',
  '<svg><animate onbegin=pwned() attributeName=x dur=1s>',
  '<math><mtext></form><form><mglyph><style></math><img src onerror=pwned()>',
  '<iframe srcdoc="<script>parent.pwned()</script>"></iframe>',
  '<iframe src="javascript:parent.pwned()"></iframe>',
  '<object data="data:text/html,<script>pwned()</script>"></object>',
  '<body onload=pwned()>',
  '<details open ontoggle=pwned()>x</details>',
  '<input autofocus onfocus=pwned()>',
  '<form action="javascript:pwned()"><button>Save</button></form>',
  '<a href="javascript:pwned()">Connect</a>',
  '<base href="//evil.example/">',
  '<meta http-equiv="refresh" content="0;url=//evil.example">',
  '<link rel=stylesheet href=//evil.example/x.css>',
  '<style>@import "//evil.example/x.css";*{display:none}</style>',
  '<template><script>pwned()</script></template>',
  '<x-evil is=pwned onclick=pwned()>',
  'javascript:pwned()',
  'data:text/html,<script>pwned()</script>',
  '{"__html":"<img src=x onerror=pwned()>","dangerouslySetInnerHTML":{"__html":"<b>x</b>"}}',
]

// Each closes what may surround the text: a tag, an attribute, a script or a comment.
const openings = [
  '',
  '">',
  "'>",
  '" onmouseover="pwned()" x="',
  '</script>',
  '</title></textarea></style>',
  '--><!--x-->',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a template engine would run this.
  ']]>\u0000\u2028${pwned()}{{constructor.constructor("pwned()")()}}',
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

/** 200 strings that must always stay plain text. */
export const hostileStrings: readonly string[] = openings.flatMap((opening) =>
  payloads.map((payload) => opening + payload),
)
