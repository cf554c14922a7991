import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { AuditedChange } from "../../studio/costs/platform-book.ts";
import type { StudioMember } from "../../studio/studio-reader.ts";
import { explainPoints, openPointsOf, type PointReason } from "./open-points.ts";
import { accountFigures, callStatements, exceptionSchema } from "./statement.ts";

export const checklistSchema = z.union([
  z.object({
    outcome: z.literal("listed"),
    /** Identifies the records that were shown. */
    state: z.string(),
    figures: z.array(accountFigures),
    /** The exceptions of the month's last statement, which was reopened. */
    earlier: z.array(exceptionSchema),
  }),
  z.object({ outcome: z.literal("not_ended") }),
  z.object({ outcome: z.literal("already_closed"), id: z.uuid() }),
]);

/** Returns what closing a month needs. @throws Response 403, 503 like {@link callStatements} */
export function readCloseChecklist(
  context: AppLoadContext,
  { member, month }: { member: StudioMember; month: string },
) {
  const args = { of_month: month };
  return callStatements(context, { member, name: "read_close_checklist", args, schema: checklistSchema });
}

/**
 * Closes a month of the platform's book with the records that were shown and a reason for each open point.
 * @throws Response 403; 503, after which the month may be closed
 */
export async function closeMonth(
  context: AppLoadContext,
  options: {
    member: StudioMember;
    month: string;
    state: string;
    reasons: readonly PointReason[];
    change: AuditedChange;
  },
) {
  const { member, month, state, reasons, change } = options;
  const checklist = await readCloseChecklist(context, { member, month });
  if (checklist.outcome !== "listed") return checklist;
  if (checklist.state !== state) return { outcome: "changed" as const };
  const exceptions = explainPoints(openPointsOf(checklist.figures), reasons);
  const schema = z.union([
    z.object({ outcome: z.enum(["closed", "already_closed"]), id: z.uuid() }),
    z.object({ outcome: z.enum(["changed", "reasons_missing", "not_ended"]) }),
  ]);
  const args = { of_month: month, state, exceptions, change };
  return callStatements(context, { member, name: "close_month", args, schema });
}
