import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../../../http/problem.ts";
import { callAsMember, type MemberReader, readStudio, type StudioMember } from "../../studio-reader.ts";
import { type ImportReceipt, importAnswer, importReceipt, previewAnswer } from "./import-answers.ts";
import type { CostBook } from "./import-steps.ts";

/** Enough to import a year of costs in many accounts. The database compares and writes each day separately. */
const timeoutMs = 30_000;

const refusal = z.object({ outcome: z.enum(["not_allowed", "app_not_linked"]) });

/**
 * Returns the functions that preview and store an import into a workspace's app, for a member who may use the studio.
 */
export function memberBook(
  context: AppLoadContext,
  { member, appId }: { member: StudioMember; appId: string },
): CostBook {
  const call = async <Schema extends z.ZodType<{ outcome: string }>>(
    name: string,
    { args, schema }: { args: Record<string, unknown>; schema: Schema },
  ) => {
    const answer = await callAsMember(context, {
      member,
      name,
      args: { app: appId, ...args },
      schema: z.union([schema, refusal]),
      timeoutMs,
    });
    const { outcome } = answer as { outcome: string };
    if (outcome === "not_allowed") throw problem("FORBIDDEN", { requestId: context.requestId });
    if (outcome === "app_not_linked") {
      return { outcome: "invalid" as const, param: "form", message: "The app is no longer linked to this workspace." };
    }
    return answer as z.output<Schema>;
  };
  return {
    preview: (document) => call("preview_cost_import", { args: { document }, schema: previewAnswer }),
    store: (args) => call("import_cost_file", { args, schema: importAnswer }),
  };
}

/**
 * Reads the receipt of an import.
 * @throws Response 403, 404, 503
 */
export async function requireImport(
  context: AppLoadContext,
  { reader, importId }: { reader: MemberReader; importId: string },
): Promise<ImportReceipt> {
  const { requestId } = context;
  if (!z.uuid().safeParse(importId).success) throw problem("NOT_FOUND", { requestId });
  const answer = await readStudio(context, {
    reader,
    name: "read_cost_import",
    args: { import_id: importId },
    schema: z.union([importReceipt, z.object({ outcome: z.literal("not_found") })]),
  });
  if (answer.outcome === "not_found") throw problem("NOT_FOUND", { requestId });
  return answer;
}
