import { Readable } from "node:stream";
import { createReadableStreamFromReadable } from "@remix-run/node";
import type { SupabaseClient } from "@supabase/supabase-js";
import { z } from "zod";

const runPageSize = 500;
const run = z.looseObject({ id: z.uuid(), createdAt: z.string() });

/**
 * Everything we hold about an account as one JSON document, written as it is read, so that a long history fits into
 * little memory: what `private.export_account` answers, then `runs`, page by page.
 * @param service the service role's client; whose account it is was decided by the caller
 * @returns null where there is no such account
 * @throws Error where the database did not answer; in the middle of the document it breaks the stream off
 */
export async function exportAccount(
  service: SupabaseClient,
  { userId, now = new Date() }: { userId: string; now?: Date },
): Promise<ReadableStream<Uint8Array> | null> {
  const database = service.schema("private");
  const { data, error } = await database.rpc("export_account", { subject_id: userId });
  if (error) throw new Error(`the account could not be exported: ${error.code}`);
  if (data === null) return null;
  const head = z.record(z.string(), z.unknown()).parse(data);

  async function* document(): AsyncGenerator<string> {
    const text = JSON.stringify({ exportedAt: now.toISOString(), ...head }, null, 2);
    yield `${text.slice(0, -2)},\n  "runs": [`;
    let before: z.infer<typeof run> | null = null;
    for (;;) {
      const page = await database.rpc("export_account_runs", { subject_id: userId, before, page_size: runPageSize });
      if (page.error) throw new Error(`runs could not be exported: ${page.error.code}`);
      const rows = z.array(run).parse(page.data);
      for (const row of rows) {
        yield `${before ? "," : ""}\n    ${JSON.stringify(row)}`;
        before = row;
      }
      if (rows.length < runPageSize) break;
    }
    yield "\n  ]\n}\n";
  }
  return createReadableStreamFromReadable(Readable.from(document(), { objectMode: false }));
}
