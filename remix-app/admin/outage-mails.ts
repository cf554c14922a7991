import { type AppLoadContext, redirect } from "@remix-run/node";
import { z } from "zod";
import { readForm } from "../http/form.ts";
import { problem } from "../http/problem.ts";
import { callFunction } from "../supabase/data-api.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

const form = z.object({ outages: z.enum(["on", "off"]) });

/**
 * Returns whether a person of the console gets emails about outages. Null if this server sends no emails.
 * @throws Response 503 UNAVAILABLE
 */
export async function readOutageMails(
  context: AppLoadContext,
  { id }: Pick<InfrastructureAdmin, "id">,
): Promise<boolean | null> {
  if (!context.env.SMTP_URL) return null;
  const args = { account_id: id };
  return callFunction(context, { name: "private.is_emailed_about_outages", args, schema: z.boolean() });
}

/**
 * Turns emails about outages on or off for the person who posted OutageMailsForm. Posting it again changes nothing.
 * @throws Response a redirect to the overview; 400 for another form, 403 if the person lost their role, 503
 */
export async function setOutageMails(
  context: AppLoadContext,
  { request, admin }: { request: Request; admin: Pick<InfrastructureAdmin, "id"> },
): Promise<never> {
  const { requestId } = context;
  const parsed = form.safeParse(Object.fromEntries(await readForm(request, context)));
  if (!parsed.success) throw problem("INVALID_REQUEST", { requestId, detail: "The form couldn’t be read." });
  const { refused } = await callFunction(context, {
    name: "private.set_outage_mails",
    args: { change: { actor: admin.id, outages: parsed.data.outages === "on" } },
    schema: z.object({ refused: z.string().optional() }),
  });
  if (refused !== undefined) throw problem("FORBIDDEN", { requestId });
  throw redirect("/admin", 303);
}
