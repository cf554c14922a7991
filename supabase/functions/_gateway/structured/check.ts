/** Whether a value conforms. @throws Exhausted where finding out would take too long */
export type Check = (value: unknown, effort: Effort) => boolean;

/** Whether a text matches a regular expression. */
export type Matcher = (text: string, effort: Effort) => boolean;

/** Where in a schema a keyword stands: what it may look at beside itself. */
export type Place = {
  /** The schema that the keyword is in. */
  schema: Record<string, unknown>;
  /** JSON Pointer of the keyword. */
  pointer: string;
  compile: (schema: unknown, pointer: string) => Check;
  resolve: (reference: string, pointer: string) => Check;
  compilePattern: (pattern: string, pointer: string) => Matcher;
};

/** A schema that is none, or that says more than can be checked here. */
export class UnsupportedSchema extends Error {
  override readonly name = "UnsupportedSchema";
}

/** An answer and a schema that would hold up everybody else. */
class Exhausted extends Error {}

/** What checking one answer may take. The isolate is other tenants', too, and neither schema nor answer is ours. */
const maxSteps = 1_000_000;
const maxDepth = 500;

/** Counts what a check takes. */
export class Effort {
  #steps = maxSteps;
  #depth = 0;

  spend(steps: number): void {
    this.#steps -= steps;
    if (this.#steps < 0) throw new Exhausted();
  }

  /** Runs a check one level further down. */
  descend(check: Check, value: unknown): boolean {
    this.#depth += 1;
    if (this.#depth > maxDepth) throw new Exhausted();
    const conforms = check(value, this);
    this.#depth -= 1;
    return conforms;
  }
}
