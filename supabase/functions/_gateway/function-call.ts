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

/** What `pg` keeps of a client and `@types/pg` does not tell. */
type Wired = pg.PoolClient & { connection: Wire };

/** Of the class that says a name means nothing, or something already (PostgreSQL, Appendix A): before anything was done. */
const misnamed: ReadonlySet<unknown> = new Set(["26000", "42P05"]);

/** Calls functions of the database that take JSON and return one value. */
export type FunctionCaller = {
  /**
   * Takes one flight, and rejects as `pg` does.
   * @param call.name the function, with its schema
   * @param call.argument JSON
   * @param call.isBehind whether it is sent at once behind what is under way, by a connection that knows it
   */
  call: (client: pg.PoolClient, call: { name: string; argument: string; isBehind?: boolean }) => Promise<string>;
  /** Whether a connection has prepared the call of a function, so that it goes out whole whatever is under way. */
  knows: (client: pg.PoolClient, name: string) => boolean;
};

/**
 * Each connection prepares a call once, by name: to parse and plan the statement anew is a tenth of what Postgres does
 * for a call that comes alone. Where a pooler hands every transaction another connection, which knows none of the names
 * or some of them, it goes on without names for good.
 */
export function createFunctionCaller(): FunctionCaller {
  let isNaming = true;
  return {
    async call(client, { name, argument, isBehind = false }) {
      const isNamed = isNaming;
      try {
        return await ask(client, { name, argument, isNamed, isBehind });
      } catch (error) {
        if (!isNamed || !misnamed.has((error as { code?: unknown }).code)) throw error;
        isNaming = false;
        return await ask(client, { name, argument, isNamed: false, isBehind: false });
      }
    },
    knows(client, name) {
      return isNaming && (client as Wired).connection.parsedStatements[textOf(name)] !== undefined;
    },
  };
}

function textOf(name: string): string {
  return `select ${name}($1)::text`;
}

function ask(
  client: pg.PoolClient,
  { isBehind, ...call }: { name: string; argument: string; isNamed: boolean; isBehind: boolean },
): Promise<string> {
  return new Promise((resolve, reject) => {
    const statement = new FunctionCall(call, { resolve, reject });
    if (isBehind) statement.send((client as Wired).connection);
    client.query(statement);
  });
}

/** One call on its way, as `pg` has statements of others' making. It asks for no description of what it knows. */
class FunctionCall implements pg.Submittable {
  readonly name: string;
  readonly text: string;
  readonly #argument: string;
  readonly #told: { resolve: (answer: string) => void; reject: (error: unknown) => void };
  #answer = "";
  #isSent = false;

  constructor(
    { name, argument, isNamed }: { name: string; argument: string; isNamed: boolean },
    told: { resolve: (answer: string) => void; reject: (error: unknown) => void },
  ) {
    this.text = textOf(name);
    // So that whoever else has it under this name has the same.
    this.name = isNamed ? this.text : "";
    this.#argument = argument;
    this.#told = told;
  }

  /** When its turn is, unless it is there already. */
  submit(connection: pg.Connection): void {
    if (!this.#isSent) this.send(connection as unknown as Wire);
  }

  /** Whatever is before it: answers come in the order of statements, and each of ours is a transaction of its own. */
  send(wire: Wire): void {
    const { name, text } = this;
    this.#isSent = true;
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
