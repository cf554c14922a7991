import { Readable } from "node:stream";
import { createReadableStreamFromReadable } from "@remix-run/node";
import type { SupabaseClient } from "@supabase/supabase-js";
import { z } from "zod";
import { eachPage } from "../http/list-page.ts";
import { createServiceClient } from "../supabase/data-api.ts";

const pageSize = 500;
/** The timeout of each read. An account's export may take longer than what a page waits for. */
const timeoutMs = 10_000;
const records = z.array(z.looseObject({ id: z.union([z.string(), z.number()]) }));
const exportHeadSchema = z.looseObject({ credits: z.looseObject({}).nullish() });

/** An export's lists that grow with use, in document order. */
const exportListNames = [
  "sessions",
  "securityEvents",
  "approvals",
  "workspaces",
  "invitations",
  "keys",
  "appHandoffs",
  "appSessions",
  "appTokens",
  "openidLogins",
  "openidCodes",
  "deviceLogins",
  "openidConsents",
  "agentConnections",
  "agentAccess",
  "serviceAccounts",
  "runs",
] as const;

type ExportListName = (typeof exportListNames)[number] | "ledger";

/** Returns the client with which an account is exported. It waits longer than that of other requests. */
export function createExportClient(env: Parameters<typeof createServiceClient>[0]): SupabaseClient {
  return createServiceClient(env, { timeoutMs });
}

/**
 * Streams everything we hold about an account as one JSON document, at the reader's pace. It starts with the result of
 * `private.export_account`, followed by each list that grows with use, page by page.
 * @param service the service role's client, which can read any account: the caller must have checked whose account it
 * is
 * @returns null if the account doesn't exist
 * @throws Error if the database did not answer; in the middle of the document, this aborts the stream
 */
export async function exportAccount(
  service: SupabaseClient,
  { userId, now = new Date() }: { userId: string; now?: Date },
): Promise<ReadableStream<Uint8Array> | null> {
  const database = service.schema("private");
  const { data, error } = await database.rpc("export_account", { subject_id: userId, with_parts: false });
  if (error) throw new Error(`the account couldn’t be exported: ${error.code}`);
  if (data === null) return null;
  const { credits, ...all } = exportHeadSchema.parse(data);
  const rest = Object.fromEntries(
    Object.entries(all).filter(([name]) => !exportListNames.some((list) => list === name)),
  );

  /** Yields the records of a list as the members of a JSON array. */
  async function* members(list: ExportListName): AsyncGenerator<string> {
    let last: z.output<typeof records>[number] | null = null;
    let isFirst = true;
    const pages = eachPage(async () => {
      const page = { subject_id: userId, page_size: pageSize };
      const { data, error } = await (list === "runs"
        ? database.rpc("export_account_runs", { ...page, before: last })
        : database.rpc("export_account_part", { ...page, part: list, after: last }));
      if (error) throw new Error(`${list} couldn’t be exported: ${error.code}`);
      const found = records.parse(data);
      last = found.at(-1) ?? last;
      return { records: found, nextCursor: found.length < pageSize ? null : "next" };
    });
    for await (const page of pages) {
      yield page.map((record, index) => `${isFirst && index === 0 ? "" : ","}\n    ${JSON.stringify(record)}`).join("");
      isFirst &&= page.length === 0;
    }
  }

  async function* document(): AsyncGenerator<string> {
    const text = JSON.stringify({ exportedAt: now.toISOString(), ...rest }, null, 2);
    yield text.slice(0, -2);
    for (const list of exportListNames) {
      yield `,\n  "${list}": [`;
      yield* members(list);
      yield "\n  ]";
    }
    if (credits) {
      const { ledger: _, ...account } = credits;
      yield `,\n  "credits": {${JSON.stringify(account).slice(1, -1)}, "ledger": [`;
      yield* members("ledger");
      yield "\n  ]}";
    } else {
      yield ',\n  "credits": null';
    }
    yield "\n}\n";
  }
  return createReadableStreamFromReadable(Readable.from(document(), { objectMode: false, highWaterMark: 1 }));
}
