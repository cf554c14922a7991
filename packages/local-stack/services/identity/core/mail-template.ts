/** The values that a template can name. Nested values have names like `.Data.name`. */
export type TemplateData = { [name: string]: unknown };

type Node =
  | { kind: "text"; text: string }
  | { kind: "value"; path: string[] }
  | { kind: "if"; path: string[]; then: Node[]; otherwise: Node[] };

/** Escapes a value for its position. `before` is the text rendered so far. */
type Quote = (value: string, before: string) => string;

/**
 * Renders the part of Go's template language that emails use: `{{ .Name }}`, `{{ .Data.key }}`, `{{ if .Name }}…{{ else
 * }}…{{ end }}`, and `-` at the braces.
 * @throws Error naming the unsupported syntax
 */
export function renderTemplate(template: string, data: TemplateData, quote: Quote): string {
  const trimmed = template.replace(/\s*\{\{-\s/g, "{{ ").replace(/\s-\}\}\s*/g, " }}");
  const tokens = trimmed.split(/(\{\{.*?\}\})/s);
  return render(parse(tokens, false), { data, quote, before: "" });
}

/** Escapes a value for HTML as Go's html/template does: values in the query of a link are percent-encoded. */
export function quoteHtml(value: string, before: string): string {
  const address = /(?:href|src|action)\s*=\s*"([^"]*)$/i.exec(before)?.[1];
  if (address === "" && !/^(?:https?:|mailto:|[/?#]|[^:]*$)/i.test(value)) return "#";
  return escapeHtml(address && /[?#]/.test(address) ? encodeURIComponent(value) : value);
}

function escapeHtml(value: string): string {
  const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;" };
  return value.replace(/[&<>"']/g, (character) => entities[character] ?? character);
}

function parse(tokens: string[], nested: boolean): Node[] {
  const nodes: Node[] = [];
  for (let token = tokens.shift(); token !== undefined; token = tokens.shift()) {
    const action = /^\{\{(.*)\}\}$/s.exec(token)?.[1]?.trim();
    if (action === undefined) {
      nodes.push({ kind: "text", text: token });
    } else if (action === "end" || action === "else") {
      if (!nested) throw new Error(`{{ ${action} }} without {{ if }}`);
      tokens.unshift(token);
      return nodes;
    } else if (action.startsWith("if ")) {
      nodes.push(parseIf(pathOf(action.slice(3)), tokens));
    } else {
      nodes.push({ kind: "value", path: pathOf(action) });
    }
  }
  if (nested) throw new Error("{{ if }} without {{ end }}");
  return nodes;
}

function parseIf(path: string[], tokens: string[]): Node {
  const isElse = (token: string | undefined) => /^\{\{\s*else\s*\}\}$/.test(token ?? "");
  const then = parse(tokens, true);
  const otherwise = isElse(tokens.shift()) ? parse(tokens, true) : [];
  if (isElse(tokens[0])) throw new Error("{{ else }} twice");
  if (/^\{\{\s*end\s*\}\}$/.test(tokens[0] ?? "")) tokens.shift();
  return { kind: "if", path, then, otherwise };
}

function pathOf(expression: string): string[] {
  const trimmed = expression.trim();
  if (!/^\.\w+(\.\w+)*$/.test(trimmed)) throw new Error(`"{{ ${trimmed} }}" is not understood`);
  return trimmed.slice(1).split(".");
}

function lookUp(path: string[], data: TemplateData): unknown {
  return path.reduce<unknown>(
    (value, key) =>
      typeof value === "object" && value !== null && Object.hasOwn(value, key)
        ? (value as TemplateData)[key]
        : undefined,
    data,
  );
}

function render(nodes: Node[], { data, quote, before }: { data: TemplateData; quote: Quote; before: string }): string {
  let rendered = before;
  for (const node of nodes) {
    if (node.kind === "text") {
      rendered += node.text;
      continue;
    }
    const value = lookUp(node.path, data);
    if (node.kind === "value") {
      rendered += quote(value === undefined || value === null ? "" : String(value), rendered);
    } else {
      rendered += render(value ? node.then : node.otherwise, { data, quote, before: rendered });
    }
  }
  return rendered.slice(before.length);
}
