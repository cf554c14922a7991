import { type ImportOutcome, importUser, type UserBackend } from "./import-user.ts";
import type { FileRecord } from "./read-records.ts";
import type { openReport, ReportEntry } from "./report.ts";
import { type Provider, type SourceUser, UnusableRecord } from "./source-user.ts";

type Parsed<Value> = { line: number; value: Value } | { line: number; fault: UnusableRecord };

/** A user of the file, or why a record is not one. */
export type FileUser = Parsed<SourceUser>;

const concurrentCalls = 8;

/** Parses each record with `read`, which throws UnusableRecord. */
export async function* parseRecords<Value>(
  records: AsyncIterable<FileRecord>,
  read: (value: unknown) => Value,
): AsyncGenerator<Parsed<Value>> {
  for await (const record of records) {
    if ("fault" in record) {
      yield record;
      continue;
    }
    try {
      yield { line: record.line, value: read(record.value) };
    } catch (error) {
      if (!(error instanceof UnusableRecord)) throw error;
      yield { line: record.line, fault: error };
    }
  }
}

/**
 * The order in which users are created. An unverified email, or a user without a password, must not take the email from
 * the user who has proved it.
 */
function rankOf({ emailVerified, password }: SourceUser): number {
  return (emailVerified ? 0 : 2) + ("hash" in password ? 0 : 1);
}

type ImportOptions = {
  provider: Provider;
  backend: UserBackend;
  report: Pick<ReturnType<typeof openReport>, "add">;
  /** Whether users without a usable hash get an account without a password. */
  withoutPassword: boolean;
  /** Lets the database accept an email that may not sign up. Given while sign-up is by invitation. */
  admit?: (email: string) => Promise<void>;
};

/**
 * Imports the users of a file, and reports each once. Reads the file again for each rank, so that it need not fit into
 * memory.
 * @throws BackendError
 */
export async function importUsers(openUsers: () => AsyncIterable<FileUser>, options: ImportOptions): Promise<void> {
  const ranks = new Set([0]);
  for (const rank of [0, 1, 2, 3]) {
    if (!ranks.has(rank)) continue;
    await forEachConcurrently(openUsers(), async (record) => {
      if ("fault" in record) {
        if (rank === 0) await options.report.add(describeFault(record));
        return;
      }
      const userRank = rankOf(record.value);
      ranks.add(userRank);
      if (userRank === rank) await options.report.add(await importOne(record, options));
    });
  }
}

async function importOne(
  { line, value: user }: { line: number; value: SourceUser },
  { provider, backend, withoutPassword, admit }: ImportOptions,
): Promise<ReportEntry> {
  const entry = { line, source_id: user.sourceId, email: user.email };
  const { password } = user;
  if ("missing" in password && !withoutPassword) return { ...entry, outcome: "not_taken", reason: password.missing };
  await admit?.(user.email);
  const outcome = await importUser(backend, user, { provider });
  return { ...entry, ...describeOutcome(outcome, user) };
}

function describeOutcome(outcome: ImportOutcome, { omitted }: SourceUser): Omit<ReportEntry, "line"> {
  if (outcome.outcome === "not_taken") return outcome;
  const { otherEmail, userId } = outcome;
  return {
    outcome: outcome.outcome,
    user_id: userId,
    omitted: [...omitted, ...(otherEmail ? (["email"] as const) : [])],
  };
}

function describeFault({ line, fault }: { line: number; fault: UnusableRecord }): ReportEntry {
  return { line, source_id: fault.sourceId, outcome: "not_taken", reason: fault.reason, detail: fault.message };
}

/** Calls `use` for each item, a bounded number at a time. After an error, begins no more and throws it. */
async function forEachConcurrently<Item>(items: AsyncIterable<Item>, use: (item: Item) => Promise<void>) {
  const iterator = items[Symbol.asyncIterator]();
  const shared = { [Symbol.asyncIterator]: () => iterator };
  const worker = async () => {
    for await (const item of shared) await use(item);
  };
  const ended = await Promise.allSettled(Array.from({ length: concurrentCalls }, worker));
  const failed = ended.find((one) => one.status === "rejected");
  if (failed) throw failed.reason;
}
