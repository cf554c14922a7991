import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import type { enteredInvoice } from "#shared/provider-records.ts";
import { problem } from "../../http/problem.ts";
import { createServiceClient } from "../../identity/service-client.ts";
import type { StudioMember } from "../studio-reader.ts";

/** The receipt of an invoice. */
export const invoiceReceipt = z.object({ accepted: z.literal(true), reference: z.string() });

const recorded = z.union([
  z.object({ outcome: z.enum(["stored", "unchanged"]), id: z.uuid() }),
  z.object({
    refused: z.literal("invoice_conflict"),
    /** The kept one, and by which fields it differs. */
    id: z.uuid(),
    differs: z.array(z.enum(["amountUsd", "issuedOn", "periodStart", "periodEnd", "reviewedAt"])),
  }),
  z.object({
    refused: z.enum(["not_allowed", "app_not_linked", "invalid_request"]),
    param: z.string().optional(),
    message: z.string().optional(),
  }),
]);

type Entry = StudioMember & { invoice: z.output<typeof enteredInvoice> };

/**
 * Keeps an invoice that a member reviewed, for one of the workspace's apps, or says why not. The same one again is one
 * receipt.
 * @throws Response 503 UNAVAILABLE
 */
export async function keepInvoice(
  { env, requestId }: AppLoadContext,
  { userId, workspaceId, invoice: { appId, ...record } }: Entry,
): Promise<z.output<typeof recorded>> {
  const { data, error } = await createServiceClient(env)
    .schema("ai")
    .rpc("record_provider_invoice", { member_id: userId, workspace: workspaceId, app: appId, record });
  const answer = recorded.safeParse(data);
  if (!error && answer.success) return answer.data;
  console.error(`error request=${requestId} an invoice could not be kept: ${error?.code ?? "unexpected answer"}`);
  throw problem("UNAVAILABLE", { requestId });
}

/**
 * As {@link keepInvoice}, for the API.
 * @throws Response 400 INVALID_REQUEST, 403 FORBIDDEN, 409 CONFLICT for another state of it, 503 UNAVAILABLE
 */
export async function recordInvoice(context: AppLoadContext, entry: Entry): Promise<z.output<typeof invoiceReceipt>> {
  const answer = await keepInvoice(context, entry);
  if ("outcome" in answer) return { accepted: true, reference: entry.invoice.reference };
  const { requestId } = context;
  switch (answer.refused) {
    case "not_allowed":
      throw problem("FORBIDDEN", { requestId });
    case "app_not_linked":
      throw problem("INVALID_REQUEST", {
        requestId,
        detail: "appId: no enabled external app linked to this workspace.",
        members: { param: "appId" },
      });
    case "invoice_conflict":
      throw problem("CONFLICT", {
        requestId,
        detail: "An invoice of this reference is kept already, in another state. Invoices are never changed.",
      });
    case "invalid_request":
      throw problem("INVALID_REQUEST", {
        requestId,
        ...(answer.message ? { detail: answer.message } : {}),
        ...(answer.param ? { members: { param: answer.param } } : {}),
      });
  }
}
