import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../../http/problem.ts";
import { importAnswer, importReceipt, previewAnswer } from "../../studio/costs/cost-import/import-answers.ts";
import { type CostBook, type ImportEntry, takeImportStep } from "../../studio/costs/cost-import/import-steps.ts";
import { callFunction } from "../../supabase/data-api.ts";
import { reviewDrafts } from "../../supabase/review-drafts.ts";
import { askConsole, confirms, reasonSchema } from "../console-change.ts";
import type { InfrastructureAdmin } from "../require-admin.ts";

/**
 * Returns the functions that preview and store the platform costs that an admin imports. Both throw 503 UNAVAILABLE.
 */
function platformBook(
  context: AppLoadContext,
  { admin, reason }: { admin: InfrastructureAdmin; reason: string },
): CostBook {
  return {
    preview: (document) =>
      callFunction(context, { name: "private.preview_platform_costs", args: { document }, schema: previewAnswer }),
    async store(change) {
      const answer = await askConsole(context, {
        admin,
        name: "import_platform_costs",
        change: { ...change, reason },
        schema: z.union([importAnswer, z.object({ outcome: z.literal("not_allowed") })]),
      });
      const { requestId } = context;
      if (answer === null) {
        const detail = "The database didn’t respond. Upload the file again to see whether its costs were stored.";
        throw problem("UNAVAILABLE", { requestId, detail });
      }
      if (answer.outcome === "not_allowed") throw problem("FORBIDDEN", { requestId });
      return answer;
    },
  };
}

/**
 * Advances an import by one step. An import needs a reason and the provider's name typed again. Without
 * them, the review is shown again and nothing is stored.
 * @throws Response 403 FORBIDDEN, 429 RATE_LIMITED, 503 UNAVAILABLE
 */
export async function takePlatformStep(
  context: AppLoadContext,
  { admin, form }: { admin: InfrastructureAdmin; form: FormData },
): Promise<ImportEntry> {
  const errors = form.get("step") === "import" ? confirmationErrors(form) : null;
  if (errors) form.set("step", "preview");
  const reason = String(form.get("reason") ?? "").trim();
  const entry = await takeImportStep(form, {
    requestId: context.requestId,
    book: platformBook(context, { admin, reason }),
    drafts: reviewDrafts(context, { userId: admin.id, kind: "cost_file" }),
    userId: admin.id,
  });
  if (entry.at !== "review" || !errors) return entry;
  return { at: "review", review: { ...entry.review, errors: { ...entry.review.errors, ...errors } } };
}

/** Returns what is wrong with the confirmation of an import, or null. */
function confirmationErrors(form: FormData): Record<string, string> | null {
  const given = (name: string) => String(form.get(name) ?? "").trim();
  const reason = reasonSchema.safeParse(given("reason"));
  const errors = {
    ...(reason.success ? {} : { reason: reason.error.issues[0]?.message ?? "" }),
    ...(confirms(given("confirmation"), given("provider")) ? {} : { confirmation: typeProvider }),
  };
  return Object.keys(errors).length > 0 ? errors : null;
}

const typeProvider = "Type the provider’s name exactly as above. Nothing was stored.";

/** Returns the receipt of an import into the platform's books. @throws Response 404, 503 */
export async function requirePlatformImport(context: AppLoadContext, importId: string | undefined) {
  const { requestId } = context;
  const id = z.uuid().safeParse(importId);
  const detail = "This import doesn’t exist.";
  if (!id.success) throw problem("NOT_FOUND", { requestId, detail });
  const answer = await callFunction(context, {
    name: "private.read_platform_cost_import",
    args: { import_id: id.data },
    schema: z.union([importReceipt, z.object({ outcome: z.literal("not_found") })]),
  });
  if (answer.outcome === "not_found") throw problem("NOT_FOUND", { requestId, detail });
  return answer;
}
