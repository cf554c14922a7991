import { Fragment, isValidElement, type ReactNode } from "react";

type Props = Record<string, unknown> & { children?: ReactNode; dangerouslySetInnerHTML?: { __html: string } };
type Component = (props: Props) => ReactNode;

/** Thrown where an element is not one of those that are written here. */
const notPlain = new Error("These elements are for React's own renderer.");

/**
 * Writes elements as HTML, as React's `renderToStaticMarkup` does, at a quarter of its time. Called while a component is
 * rendered, whose hooks those of components among the elements then are; so it is for servers, where nothing is rendered
 * twice.
 * @returns null where something is among them that React alone can render: a context's provider, a class, a `select`
 */
export function markupOf(node: ReactNode): string | null {
  try {
    return write(node);
  } catch (error) {
    if (error === notPlain) return null;
    throw error;
  }
}

function write(node: ReactNode): string {
  if (typeof node === "string") return escapeText(node);
  if (typeof node === "number") return String(node);
  if (node === null || node === undefined || typeof node === "boolean") return "";
  if (Array.isArray(node)) return writeAll(node);
  if (!isValidElement<Props>(node)) throw notPlain;
  const { type, props } = node;
  if (typeof type === "string") return writeElement(type, props);
  // Fragment is a symbol, whatever its type says.
  if ((type as unknown) === Fragment) return write(props.children);
  return write(componentOf(type)(props));
}

function writeAll(nodes: readonly ReactNode[]): string {
  let written = "";
  for (const node of nodes) written += write(node);
  return written;
}

const forwardRef = Symbol.for("react.forward_ref");

/** What a component of no class makes of its properties. */
function componentOf(type: unknown): Component {
  if (typeof type === "function" && !type.prototype?.isReactComponent) return type as Component;
  const { $$typeof: kind, render } = type as { $$typeof?: symbol; render?: (props: Props, ref: null) => ReactNode };
  if (kind !== forwardRef || !render) throw notPlain;
  return (props) => render(props, null);
}

/** Whose contents or values React writes in ways of their own. */
const special = new Set(["select", "option", "textarea", "pre", "listing", "style", "html", "body"]);
const empty = new Set(["area", "br", "col", "hr", "img", "input", "source", "wbr"]);

function writeElement(tag: string, props: Props): string {
  if (special.has(tag)) throw notPlain;
  let written = `<${tag}`;
  for (const name in props) {
    const value = props[name];
    if (value === null || value === undefined || ofContents.has(name)) continue;
    written += writeAttribute(tag === "input" ? nameOnInput(name, props) : name, value);
  }
  if (empty.has(tag)) return `${written}/>`;
  const contents = props.dangerouslySetInnerHTML?.__html ?? write(props.children);
  return `${written}>${contents}</${tag}>`;
}

const ofContents = new Set(["children", "dangerouslySetInnerHTML", "suppressHydrationWarning"]);

/** A field that nobody's script controls has what it begins with as its value. */
function nameOnInput(name: string, { value, checked }: Props): string {
  if (name === "defaultValue" && (value === null || value === undefined)) return "value";
  return name === "defaultChecked" && (checked === null || checked === undefined) ? "checked" : name;
}

/** Attributes that are there or not. */
const booleans = new Map(
  ["autoFocus", "checked", "disabled", "formNoValidate", "hidden", "noValidate", "open", "readOnly", "required"].map(
    (name) => [name, ` ${name.toLowerCase()}=""`],
  ),
);
/** What React calls otherwise than HTML and SVG do. */
const renamed = new Map([
  ["className", "class"],
  ["formAction", "formaction"],
  ["htmlFor", "for"],
  ["spellCheck", "spellcheck"],
  ["strokeLinecap", "stroke-linecap"],
  ["strokeLinejoin", "stroke-linejoin"],
  ["strokeWidth", "stroke-width"],
  ["tabIndex", "tabindex"],
  ["vectorEffect", "vector-effect"],
]);
/** Whose capitals stay. */
const capital = new Set([
  ...["autoCapitalize", "autoComplete", "colSpan", "dateTime", "encType", "inputMode", "maxLength"],
  ...["minLength", "preserveAspectRatio", "viewBox"],
]);
const attributeOfItsName = /^[a-z][a-z\d]*$/;
const ariaOrData = /^(?:aria|data)-[a-z-]+$/;
/** Of one word, and for React to write: their values mean more than their text. */
const ofReact = new Set([
  "style",
  "ref",
  "key",
  "multiple",
  "selected",
  "download",
  "capture",
  "size",
  "start",
  "span",
]);

function writeAttribute(name: string, value: unknown): string {
  if (typeof value === "function" && name.startsWith("on")) return "";
  const isText = typeof value === "string" || typeof value === "number";
  const known = renamed.get(name);
  if (known !== undefined && (isText || name === "spellCheck")) return ` ${known}="${escapeText(String(value))}"`;
  const present = booleans.get(name);
  if (present !== undefined) return value ? present : "";
  if (ariaOrData.test(name) && (isText || typeof value === "boolean")) return ` ${name}="${escapeText(String(value))}"`;
  if (!isText || ofReact.has(name) || !(capital.has(name) || attributeOfItsName.test(name))) throw notPlain;
  return ` ${name}="${escapeText(String(value))}"`;
}

const meaning = /["&'<>]/;
const entities: Record<string, string> = { '"': "&quot;", "&": "&amp;", "'": "&#x27;", "<": "&lt;", ">": "&gt;" };

function escapeText(text: string): string {
  return meaning.test(text) ? text.replace(/["&'<>]/g, (character) => entities[character] ?? "") : text;
}
