import { once } from "node:events";
import { createWriteStream } from "node:fs";
import type { ImportOutcome } from "./import-user.ts";
import type { Omission } from "./source-user.ts";

export type ReportEntry = {
  line: number;
  source_id?: string | undefined;
  email?: string | undefined;
  outcome: ImportOutcome["outcome"];
  user_id?: string | undefined;
  reason?: Reason | undefined;
  detail?: string | undefined;
  omitted?: Omission[] | undefined;
};

type Refusal = Extract<ImportOutcome, { outcome: "not_taken" }>["reason"];
export type Reason = Refusal | "malformed" | "no_email" | "no_password" | "unsupported_hash";

const reasons: Record<Reason, string> = {
  email_taken: "another account has the email",
  id_taken: "the account was deleted, or is not of this import",
  refused: "the project refused the user",
  failed: "the project failed for this user",
  malformed: "the record is damaged",
  no_email: "the user has no email",
  no_password: "the user has no password (--without-password creates the account)",
  unsupported_hash: "the password's hash cannot be verified (--without-password creates the account)",
};

const omissionTexts: Record<Omission, string> = {
  email: "the account has another email by now",
  identities: "accounts at other providers",
  metadata: "metadata and custom claims",
  mfa: "second factors",
  other_emails: "further emails",
  phone: "phone numbers",
  picture: "pictures that are not a short https URL",
  username: "usernames",
};

/** Writes a JSON line for each user to a new file that only its owner can read, and counts. */
export function openReport(path: string) {
  const file = createWriteStream(path, { flags: "wx", mode: 0o600 });
  const opened = once(file, "open");
  const outcomes = { created: 0, present: 0, not_taken: 0 };
  const counts = new Map<string, number>();
  const count = (key: string) => counts.set(key, (counts.get(key) ?? 0) + 1);

  function list(texts: Record<string, string>): string[] {
    return Object.entries(texts)
      .filter(([key]) => counts.has(key))
      .map(([key, text]) => `  ${String(counts.get(key)).padStart(7)}  ${key}: ${text}`);
  }

  return {
    opened,
    outcomes,
    async add(entry: ReportEntry): Promise<void> {
      outcomes[entry.outcome] += 1;
      if (entry.reason) count(entry.reason);
      entry.omitted?.forEach(count);
      if (!file.write(`${JSON.stringify(entry)}\n`)) await once(file, "drain");
    },
    /** Returns the counts for the operator. */
    summary(): string {
      const { created, present, not_taken } = outcomes;
      const refused = list(reasons);
      const omitted = list(omissionTexts);
      return [
        `${created} created, ${present} imported earlier, ${not_taken} not taken.`,
        ...(refused.length > 0 ? ["Not taken:", ...refused] : []),
        ...(omitted.length > 0 ? ["Taken without:", ...omitted] : []),
        ...(not_taken > 0 && counts.get("malformed") === not_taken && created + present === 0
          ? ['No record can be read. Is it the file that docs/importing-users.md describes under "Exports"?']
          : []),
        `Report: ${path}`,
      ].join("\n");
    },
    async close(): Promise<void> {
      file.end();
      await once(file, "close");
    },
  };
}
