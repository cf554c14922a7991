import { escapeHtml } from "./encoding.ts";
import type { SatelliteUser } from "./sessions.ts";

/**
 * Renders `<account-menu>` for a user: a disclosure with links and forms that work without JavaScript. The script at
 * `/account-menu.js` closes it on Escape and on clicks elsewhere, and fills an element that was rendered empty.
 */
export function accountMenu(user: SatelliteUser | null): string {
  return `<account-menu>${accountMenuContent(user)}</account-menu><script type="module" src="/account-menu.js"></script>`;
}

function accountMenuContent(user: SatelliteUser | null): string {
  if (!user) return `<a href="/sign-in">Sign in</a>`;
  const { name, email, id } = user;
  const [title, detail] = [name ?? email ?? id, name && email ? email : ""];
  return `<details><summary>${escapeHtml(title)}</summary><div>${detail && `<p>${escapeHtml(detail)}</p>`}
<a href="/sign-in">Switch account</a><form method="post" action="/sign-out"><button>Sign out</button></form></div></details>`;
}

export const accountMenuScript = `const sheet = new CSSStyleSheet();
sheet.replaceSync(\`
:where(account-menu) { position: relative; display: inline-block; font: inherit; }
:where(account-menu summary) { cursor: pointer; padding: 6px 8px; min-height: 24px; max-width: 16rem; overflow: hidden; text-overflow: ellipsis; }
:where(account-menu details > div) { position: absolute; right: 0; z-index: 10; min-width: 12rem; max-width: calc(100vw - 32px); padding: 8px;
  display: grid; gap: 4px; border: 1px solid GrayText; border-radius: 8px; background: Canvas; color: CanvasText; overflow-wrap: anywhere; }
:where(account-menu p) { margin: 0; padding: 4px 8px; }
:where(account-menu div :is(a, button)) { display: block; width: 100%; padding: 6px 8px; border: 0; background: none; color: inherit;
  font: inherit; text-align: left; text-decoration: none; cursor: pointer; }
:where(account-menu div :is(a, button):hover) { text-decoration: underline; }\`);
document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];

const make = (tag, properties, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};
customElements.define("account-menu", class extends HTMLElement {
  async connectedCallback() {
    this.addEventListener("keydown", (event) => {
      const details = this.querySelector("details[open]");
      if (event.key !== "Escape" || !details) return;
      details.open = false;
      details.querySelector("summary").focus();
    });
    document.addEventListener("click", this);
    if (this.childElementCount > 0) return;
    const response = await fetch("/api/auth/user").catch(() => null);
    if (!response?.ok || this.childElementCount > 0) return;
    const { user } = await response.json();
    this.append(user ? this.menuOf(user) : make("a", { href: "/sign-in", textContent: "Sign in" }));
  }
  disconnectedCallback() {
    document.removeEventListener("click", this);
  }
  handleEvent({ target }) {
    const details = this.querySelector("details[open]");
    if (details && !this.contains(target)) details.open = false;
  }
  menuOf({ id, name, email }) {
    const detail = name && email ? [make("p", { textContent: email })] : [];
    return make("details", {}, make("summary", { textContent: name ?? email ?? id }), make("div", {}, ...detail,
      make("a", { href: "/sign-in", textContent: "Switch account" }),
      make("form", { method: "post", action: "/sign-out" }, make("button", { textContent: "Sign out" }))));
  }
});
`;
