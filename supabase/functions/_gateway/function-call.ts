import type pg from "pg";

/** A connection as far as a statement speaks on it, which `@types/pg` tells of another version. */
type Wire = {
  stream: { cork: () => void; uncork: () => void };
  /** Kept by `pg`: what a connection has prepared, by name. */
  parsedStatements: Record<string, string | undefined>;
  parse: (message: { name: string; text: string }) => void;
  bind: (message: { statement: string; values: readonly string[]; valueMapper: (value: string) => string }) => void;
  execute: (message: object) => void;
  sync: () => void;
};

/** Of the class that says a name means nothing, or something already (PostgreSQL, Appendix A): before anything was done. */
const misnamed: ReadonlySet<unknown> = new Set(["26000", "42P05"]);

/**
 * Calls functions of the database that take JSON and return one value. A connection prepares each of them once, by name:
 * to parse and plan the statement anew is a tenth of what Postgres does for a call that comes alone. Where a pooler hands
 * every transaction another connection, which knows none of the names or some of them, it goes on without names for good.
 * @returns calls a function: its name with its schema, and its argument as JSON. It takes one flight, and rejects as `pg`
 * does
 */
export function createFunctionCaller(): (client: pg.PoolClient, name: string, argument: string) => Promise<string> {
  let naming = true;
  return async (client, name, argument) => {
    const named = naming;
    try {
      return await ask(client, { name, argument, named });
    } catch (error) {
      if (!named || !misnamed.has((error as { code?: unknown }).code)) throw error;
      naming = false;
      return await ask(client, { name, argument, named: false });
    }
  };
}

function ask(client: pg.PoolClient, call: { name: string; argument: string; named: boolean }): Promise<string> {
  return new Promise((resolve, reject) => {
    client.query(new FunctionCall(call, { resolve, reject }));
  });
}

/** One call on its way, as `pg` has statements of others' making. It asks for no description of what it knows. */
class FunctionCall implements pg.Submittable {
  readonly name: string;
  readonly text: string;
  readonly #argument: string;
  readonly #told: { resolve: (answer: string) => void; reject: (error: unknown) => void };
  #answer = "";

  constructor(
    { name, argument, named }: { name: string; argument: string; named: boolean },
    told: { resolve: (answer: string) => void; reject: (error: unknown) => void },
  ) {
    this.text = `select ${name}($1)::text`;
    // So that whoever else has it under this name has the same.
    this.name = named ? this.text : "";
    this.#argument = argument;
    this.#told = told;
  }

  submit(connection: pg.Connection): void {
    const wire = connection as unknown as Wire;
    const { name, text } = this;
    wire.stream.cork();
    if (!wire.parsedStatements[name]) wire.parse({ name, text });
    wire.bind({ statement: name, values: [this.#argument], valueMapper: asItIs });
    wire.execute({});
    wire.sync();
    wire.stream.uncork();
  }

  handleDataRow({ fields: [answer] }: { fields: (string | null)[] }): void {
    this.#answer = answer ?? "";
  }

  handleCommandComplete(): void {}

  handleReadyForQuery(): void {
    this.#told.resolve(this.#answer);
  }

  handleError(error: unknown): void {
    this.#told.reject(error);
  }
}

function asItIs(value: string): string {
  return value;
}
