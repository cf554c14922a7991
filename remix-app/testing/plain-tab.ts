import { JSDOM } from "jsdom";
import { type Browser, openBrowser } from "./browser.ts";

/** An accessible name: the whole text, or a pattern. */
export type Name = string | RegExp;
type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

/**
 * A tab of a browser that runs no scripts. Follows redirects and links, fills in forms by their labels and submits them
 * as HTML defines it, so that a journey fails if a page needs JavaScript. Styles are not applied.
 */
export interface PlainTab {
  /** Opens a path of the tab's origin, or a URL on it. */
  open(path: string): Promise<void>;
  /** Follows the page's first link with this name. */
  follow(name: Name): Promise<void>;
  /** Types into a field, or selects an option by its value or text. */
  fill(label: Name, value: string): void;
  /** Checks a box or selects a radio button. */
  check(label: Name, checked?: boolean): void;
  /** Submits the form of the button with this name. */
  press(name: Name): Promise<void>;
  /** The path and query of the page. */
  path(): string;
  status(): number;
  heading(): string;
  /** The text of the page's main part. */
  words(): string;
  /** The text of the summary of errors, or "" if there is none. */
  alert(): string;
  valueOf(label: Name): string;
  /** What a screen reader adds to an invalid field's name, such as its error; "" if the field is not marked as invalid. */
  errorOf(label: Name): string;
  isChecked(label: Name): boolean;
  /** The names of the elements that match a CSS selector: their label or text. */
  texts(selector: string): string[];
  /** The names of the page's buttons. */
  buttons(): string[];
  browser: Browser;
}

const maxRedirects = 10;

/** Opens a tab on an origin. @param browser by default a new one without a session */
export function openPlainTab(base: string, browser: Browser = openBrowser(base)): PlainTab {
  let page = new JSDOM("", { url: base }).window;
  let [status, words] = [0, ""];

  async function show(answer: Awaited<ReturnType<Browser["get"]>>, at: string): Promise<void> {
    let [path, shown] = [at, answer];
    for (let hops = 0; shown.location !== null; hops += 1) {
      if (hops === maxRedirects) throw new Error(`${at} redirects more than ${maxRedirects} times.`);
      path = new URL(shown.location, new URL(path, base)).href;
      shown = await browser.get(path);
    }
    ({ status, words } = shown);
    page.close();
    page = new JSDOM(shown.text, { url: new URL(path, base).href }).window;
  }

  function found<T>(candidates: readonly T[], what: string): T {
    const [first] = candidates;
    if (first === undefined) throw new Error(`The page at ${page.location.href} has no ${what}: ${words}`);
    return first;
  }

  const all = <E extends Element>(selector: string) => [...page.document.querySelectorAll<E>(selector)];
  const control = (label: Name): Control =>
    found(
      all<Control>("input, select, textarea").filter((each) =>
        [each.getAttribute("aria-label"), ...[...(each.labels ?? [])].map(textOf)].some(
          (text) => text !== null && matches(label, text),
        ),
      ),
      `field ${label}`,
    );

  return {
    browser,
    open: async (path) => show(await browser.get(path), path),
    async follow(name) {
      const links = all<HTMLAnchorElement>("a[href]").filter((link) => matches(name, nameOf(link)));
      const { href } = found(links, `link ${name}`);
      await show(await browser.get(href), href);
    },
    fill(label, value) {
      const field = control(label);
      if (field.tagName !== "SELECT") {
        field.value = value;
        return;
      }
      const options = [...(field as HTMLSelectElement).options];
      found(
        options.filter((option) => option.value === value || textOf(option) === value),
        `option ${value} of ${label}`,
      ).selected = true;
    },
    check(label, checked = true) {
      (control(label) as HTMLInputElement).checked = checked;
    },
    async press(name) {
      const buttons = all<HTMLButtonElement>("button").filter((each) => matches(name, nameOf(each)));
      const button = found(
        buttons.filter(({ form, type, disabled }) => form && type === "submit" && !disabled),
        `button ${name} that submits a form`,
      );
      const form = button.form as HTMLFormElement;
      const fields = new URLSearchParams();
      for (const [key, value] of new page.FormData(form, button)) fields.append(key, String(value));
      // jsdom has no `formAction`.
      const action = button.getAttribute("formaction") ?? form.getAttribute("action") ?? "";
      const target = new URL(action, page.location.href);
      if ((button.getAttribute("formmethod") ?? form.method).toLowerCase() === "post") {
        return show(await browser.post(target.href, fields), target.href);
      }
      target.search = String(fields);
      await show(await browser.get(target.href), target.href);
    },
    path: () => page.location.pathname + page.location.search,
    status: () => status,
    heading: () => textOf(page.document.querySelector("h1")),
    words: () => words,
    alert: () => textOf(page.document.querySelector("[role=alert]")),
    valueOf: (label) => control(label).value,
    errorOf(label) {
      const field = control(label);
      if (field.getAttribute("aria-invalid") !== "true") return "";
      const ids = (field.getAttribute("aria-describedby") ?? "").split(" ");
      return ids.map((id) => textOf(page.document.getElementById(id))).join(" ");
    },
    isChecked: (label) => (control(label) as HTMLInputElement).checked,
    texts: (selector) => all(selector).map(nameOf),
    buttons: () => all("button").map(nameOf),
  };
}

const matches = (name: Name, text: string) => (typeof name === "string" ? name === text : name.test(text));

/** Returns an element's label or text, as a screen reader announces it. */
function nameOf(element: Element): string {
  const label = element.getAttribute("aria-label");
  if (label !== null) return label;
  const copy = element.cloneNode(true) as Element;
  for (const hidden of copy.querySelectorAll("[aria-hidden=true]")) hidden.remove();
  return textOf(copy);
}

function textOf(element: Element | null): string {
  return (element?.textContent ?? "").replaceAll(/\s+/g, " ").trim();
}
