/** A value of a JSON text and its position there. */
export interface JsonNode {
  start: number;
  end: number;
  value: unknown;
  /** An object's members, in the order of the text; null for other values. */
  members: JsonMember[] | null;
}

export interface JsonMember {
  key: string;
  /** The position of the key's opening quotation mark. */
  start: number;
  node: JsonNode;
}

const blankPattern = /(?:\s|\/\/[^\n]*|\/\*[\s\S]*?\*\/)*/y;
const stringPattern = /"(?:[^"\\\n]|\\.)*"/y;
const literal = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/** Returns the end of the blanks and comments that begin at a position. */
export function skipBlanksAndComments(source: string, at: number): number {
  blankPattern.lastIndex = at;
  blankPattern.exec(source);
  return Math.max(at, blankPattern.lastIndex);
}

/**
 * Parses JSON with comments and trailing commas, keeping positions.
 * @throws SyntaxError
 */
export function parseJson(source: string): JsonNode {
  let at = 0;

  function skip(): void {
    at = skipBlanksAndComments(source, at);
  }

  function take(pattern: RegExp): string {
    pattern.lastIndex = at;
    const found = pattern.exec(source)?.[0];
    if (found === undefined) throw new SyntaxError(`unexpected text at ${at}`);
    at += found.length;
    return found;
  }

  /** Reads items with commas between them, up to the closing bracket. */
  function list(close: string, item: () => void): void {
    at++;
    for (;;) {
      skip();
      if (source[at] === close) break;
      item();
      skip();
      if (source[at] === ",") at++;
      else if (source[at] !== close) throw new SyntaxError(`expected , or ${close} at ${at}`);
    }
    at++;
  }

  function node(): JsonNode {
    skip();
    const start = at;
    if (source[at] === "{") {
      const members: JsonMember[] = [];
      list("}", () => {
        const start = at;
        const key = JSON.parse(take(stringPattern)) as string;
        skip();
        if (source[at++] !== ":") throw new SyntaxError(`expected : at ${at}`);
        members.push({ key, start, node: node() });
      });
      const value = Object.fromEntries(members.map(({ key, node }) => [key, node.value]));
      return { start, end: at, value, members };
    }
    if (source[at] === "[") {
      const items: unknown[] = [];
      list("]", () => items.push(node().value));
      return { start, end: at, value: items, members: null };
    }
    const value: unknown = JSON.parse(take(source[at] === '"' ? stringPattern : literal));
    return { start, end: at, value, members: null };
  }

  const root = node();
  skip();
  if (at < source.length) throw new SyntaxError(`unexpected text at ${at}`);
  return root;
}
