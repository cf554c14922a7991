import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { type ConsoleChange, type ConsoleRefusal, callConsole, unavailable } from "./console-change.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

type Refusals = Record<string, Omit<ConsoleRefusal, "outcome">>;

const answerSchema = z.object({
  refused: z.string().optional(),
  last: z.object({ actorEmail: z.string().nullable(), at: z.coerce.date() }).nullish(),
});

const common: Refusals = {
  forbidden: { status: 403, message: "The console is for infrastructure admins." },
};

/**
 * Has the database make a change, in the name of an admin, with its line of the audit log.
 * @param options.refusals what its refusals of its own are called here; a lost race says who came first
 */
export async function actInConsole(
  context: AppLoadContext,
  {
    admin,
    name,
    change,
    refusals,
  }: { admin: InfrastructureAdmin; name: string; change: Record<string, unknown>; refusals: Refusals },
): Promise<ConsoleChange> {
  const { requestId, clientAddress: ip } = context;
  const args = { change: { ...change, actor: admin.id, requestId, ip } };
  const { data, error } = await callConsole(context, { name, args });
  const answer = answerSchema.safeParse(data);
  if (error || !answer.success) return unavailable;
  const { refused, last } = answer.data;
  if (refused === undefined) return { outcome: "changed" };
  if (refused === "conflict") {
    const who = last ? `${last.actorEmail ?? "The operator"} changed it at ${last.at.toISOString()}` : "It was changed";
    const message = `${who}, after you opened this page. Nothing was done: look at it again.`;
    return { outcome: "refused", status: 409, message };
  }
  const known = refusals[refused] ?? common[refused];
  return known ? { outcome: "refused", ...known } : unavailable;
}
