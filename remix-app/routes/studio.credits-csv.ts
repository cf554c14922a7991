import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { csvFile } from "../http/csv.ts";
import { problem } from "../http/problem.ts";
import { ledgerColumns } from "../studio/ledger.tsx";
import { readRange } from "../studio/range.ts";
import { type LedgerEntry, readCredits } from "../studio/usage.ts";
import { requireWorkspacePermission } from "../workspaces/permission.ts";

const entriesAtOnce = 5_000;
/** What a file may hold: more is asked for in parts, never left out. */
const maxEntries = 100_000;

/** The ledger of a range as a file, all of it. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const asked = { request, workspaceId: params.workspaceId, permission: "use_ai_studio" } as const;
  const { user, workspace } = await requireWorkspacePermission(context, asked);
  const { from, to } = readRange(new URL(request.url), { now: new Date() });
  const reader = { kind: "member", userId: user.id, workspaceId: workspace.id } as const;
  const entries: LedgerEntry[] = [];
  let cursor: string | undefined;
  do {
    const page = await readCredits(context, { reader, query: { from, to, limit: entriesAtOnce, cursor } });
    entries.push(...page.entries);
    cursor = page.nextCursor ?? undefined;
    if (cursor && entries.length >= maxEntries) {
      const detail = "This range has more entries than fit a file. Choose a shorter one.";
      throw problem("INVALID_REQUEST", { requestId: context.requestId, detail });
    }
  } while (cursor);
  return csvFile(`credits-${from.slice(0, 10)}`, ledgerColumns, entries);
}
