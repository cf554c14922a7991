/**
 * Returns whether a value conforms to a schema.
 * @throws Exhausted if the check would take too long
 */
export type Check = (value: unknown, effort: Effort) => boolean;

/** Returns whether a text matches a regular expression. */
export type Matcher = (text: string, effort: Effort) => boolean;

/**
 * The location of a keyword in a schema, and functions that compile the keyword's subschemas, references and patterns.
 */
export type KeywordContext = {
  schema: Record<string, unknown>;
  /** JSON Pointer of the keyword. */
  pointer: string;
  compile: (schema: unknown, pointer: string) => Check;
  resolve: (reference: string, pointer: string) => Check;
  compilePattern: (pattern: string, pointer: string) => Matcher;
};

/** The schema is invalid, or this checker doesn't support all of it. */
export class UnsupportedSchema extends Error {
  override readonly name = "UnsupportedSchema";
}

/** Checking the answer would take so long that other requests would have to wait. */
class Exhausted extends Error {}

/** Limits on checking one answer. Other tenants share the isolate, and neither schema nor answer can be trusted. */
const maxSteps = 1_000_000;
const maxCheckDepth = 500;

/** Counts the steps and the depth of a check. */
export class Effort {
  #steps = maxSteps;
  #depth = 0;

  spend(steps: number): void {
    this.#steps -= steps;
    if (this.#steps < 0) throw new Exhausted();
  }

  /** Runs a check one level deeper. */
  descend(check: Check, value: unknown): boolean {
    this.#depth += 1;
    if (this.#depth > maxCheckDepth) throw new Exhausted();
    const conforms = check(value, this);
    this.#depth -= 1;
    return conforms;
  }
}
