import pg from "pg";
import type { FunctionCaller } from "./function-call.ts";
import type { Taken } from "./kept-connection.ts";
import { startTimeLimit } from "./time-limit.ts";

/** Connections whose server process answers them itself. */
const direct = new WeakSet<pg.PoolClient>();

/**
 * Finds out who answers a new connection. A pooler greets in a name of its own, and some (Supavisor in transaction mode)
 * lose the answers to statements that are sent before the last one's answer; none of them is sent any. The name of the
 * application is looked at, too, since a number that a pooler makes up may happen to be a process.
 */
export async function learnWhoAnswers(client: pg.PoolClient, applicationName: string): Promise<void> {
  const { rows } = await client.query<{ pid: number; name: string }>(
    "select pg_catalog.pg_backend_pid() as pid, pg_catalog.current_setting('application_name') as name",
  );
  const { processID } = client as unknown as { processID?: number };
  const [answers] = rows;
  if (answers && answers.pid === processID && answers.name === applicationName) direct.add(client);
}

/**
 * A connection that was taken while statements are under way on it. One that failed a statement is asked nothing further
 * and then closed, one that is silent is closed at once; another takes its place.
 */
export class HeldConnection {
  readonly #client: pg.PoolClient;
  readonly #giveBack: Taken["release"];
  readonly #functions: FunctionCaller;
  #underWay = 0;
  #hasFailed = false;
  /** What the server ended the connection with. */
  #lastWord: pg.DatabaseError | undefined;
  #isReleased = false;

  constructor({ client, release }: Taken, functions: FunctionCaller) {
    this.#client = client;
    this.#giveBack = release;
    this.#functions = functions;
  }

  /** Whether the call of a function may be sent behind the one statement that is under way. */
  mayFollow(name: string): boolean {
    return (
      this.#underWay === 1 &&
      !this.#hasFailed &&
      !this.#isReleased &&
      direct.has(this.#client) &&
      this.#functions.knows(this.#client, name)
    );
  }

  /**
   * Calls a function, behind what is under way, and gives the connection back with the last answer.
   * @throws what `pg` does, also where there is no answer within the limit
   */
  async ask(name: string, argument: string, limitMs: number): Promise<string> {
    const isBehind = this.#underWay > 0;
    this.#underWay += 1;
    const limit = startTimeLimit(limitMs, () => this.#release(true));
    try {
      return await this.#functions.call(this.#client, { name, argument, isBehind });
    } catch (error) {
      this.#hasFailed = true;
      // With it the server has ended what it was at, and never came to what was behind that.
      if (this.#lastWord) throw this.#lastWord;
      if (error instanceof pg.DatabaseError && isLastWord(error)) this.#lastWord = error;
      throw error;
    } finally {
      limit.end();
      this.#underWay -= 1;
      if (this.#underWay === 0) this.#release(this.#hasFailed);
    }
  }

  #release(isClosed: boolean): void {
    if (!this.#isReleased) this.#giveBack(isClosed);
    this.#isReleased = true;
  }
}

/** By the class of an operator's intervention, too, since a severity is told in the server's language. */
function isLastWord({ severity, code }: pg.DatabaseError): boolean {
  return severity === "FATAL" || severity === "PANIC" || (code?.startsWith("57P") ?? false);
}
