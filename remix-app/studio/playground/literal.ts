const identifier = /^[A-Za-z_$][\w$]*$/;
const lineWidth = 80;

/** Formats a JSON value as Python. JSON's string escapes are valid in Python too. */
export function pythonLiteral(value: unknown, indent = 0): string {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  return writeLiteral(value, { indent, step: 4, write: pythonLiteral, key: (name) => JSON.stringify(name) });
}

export function typescriptLiteral(value: unknown, indent = 0): string {
  return writeLiteral(value, { indent, step: 2, write: typescriptLiteral, key: typescriptKey });
}

/** Formats a property name as TypeScript. */
export function typescriptKey(name: string): string {
  // Without quotes and brackets, this name would set the object's prototype.
  if (name === "__proto__") return '["__proto__"]';
  return identifier.test(name) ? name : JSON.stringify(name);
}

interface Style {
  indent: number;
  step: number;
  write: (value: unknown, indent: number) => string;
  key: (name: string) => string;
}

function writeLiteral(value: unknown, { indent, step, write, key }: Style): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const inner = indent + step;
  const parts = Array.isArray(value)
    ? value.map((each) => write(each, inner))
    : Object.entries(value).map(([name, each]) => `${key(name)}: ${write(each, inner)}`);
  const [open, close, pad] = Array.isArray(value) ? ["[", "]", ""] : ["{", "}", " "];
  if (parts.length === 0) return `${open}${close}`;
  const line = `${open}${pad}${parts.join(", ")}${pad}${close}`;
  if (indent + line.length <= lineWidth && !line.includes("\n")) return line;
  const margin = " ".repeat(inner);
  return `${open}\n${parts.map((part) => `${margin}${part},\n`).join("")}${" ".repeat(indent)}${close}`;
}
