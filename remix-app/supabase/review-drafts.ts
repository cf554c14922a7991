import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { callFunction } from "./data-api.ts";

/** What a review page shows is kept on the server between its steps, because a form could send back anything. */
export interface ReviewDrafts {
  /** Stores text for 15 minutes. An account keeps its five newest drafts. @returns the draft's id */
  store: (contents: string) => Promise<string>;
  /** @returns null if the draft expired, was replaced by newer ones, or belongs to another account or kind of review */
  read: (id: string) => Promise<string | null>;
}

/** Contents have up to 4 MiB. */
const timeoutMs = 10_000;

/** Returns an account's drafts of one kind of review. Both functions throw a Response with 503 UNAVAILABLE. */
export function reviewDrafts(
  context: Pick<AppLoadContext, "env" | "requestId">,
  { userId, kind }: { userId: string; kind: "cost_file" | "prices" },
): ReviewDrafts {
  const owner = { account_id: userId, review_kind: kind };
  return {
    store: (contents) =>
      callFunction(context, {
        name: "private.store_review_draft",
        args: { ...owner, draft_contents: contents },
        schema: z.uuid(),
        timeoutMs,
      }),
    async read(id) {
      if (!z.uuid().safeParse(id).success) return null;
      const args = { ...owner, draft_id: id };
      return callFunction(context, {
        name: "private.read_review_draft",
        args,
        schema: z.string().nullable(),
        timeoutMs,
      });
    },
  };
}
