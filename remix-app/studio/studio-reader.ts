import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { serviceBearerToken } from "../http/authorization.ts";
import { problem } from "../http/problem.ts";
import { type AppCaller, callAsApp, requireCaller, workspaceIdOrUnknown } from "../satellites/app-caller.ts";
import { callFunction } from "../supabase/data-api.ts";
import { requireWorkspaceCaller } from "../workspaces/workspace-caller.ts";

const anyId = z.uuid();

/**
 * A caller and what they may use, both verified: a member or a service account of a workspace with its id, or an
 * infrastructure admin with the id of the platform's book.
 */
export interface StudioMember {
  userId: string;
  workspaceId: string;
}

/** The reader of a workspace's studio: a person, or a satellite that reads for a member. The database checks both. */
export type StudioReader = StudioMember | (AppCaller & { workspaceId: string });

/**
 * Returns the member, service account or satellite that reads the studio, on a route that also accepts app sessions.
 * @throws Response for members and service accounts like {@link requireWorkspaceCaller}; 401 for an invalid app session
 */
export async function requireStudioReader(
  context: AppLoadContext,
  { request, params }: { request: Request; params: { workspaceId?: string | undefined } },
): Promise<StudioReader> {
  if (serviceBearerToken(request.headers.get("authorization")) === null) {
    const caller = await requireCaller(context, request);
    if (caller.kind === "app") return { ...caller, workspaceId: workspaceIdOrUnknown(params.workspaceId) };
  }
  return (await requireWorkspaceCaller(context, { request, params, permission: "use_ai_studio" })).member;
}

export const refusal = z.union([
  z.object({ outcome: z.literal("not_allowed") }),
  z.object({ outcome: z.literal("bad_window"), fault: z.string() }),
]);

/**
 * Calls a database function that reads for a member or for an app session.
 * @param options.name the name of a function in schema ai
 * @throws Response 400 for an invalid range, 403 FORBIDDEN, 503 UNAVAILABLE
 * @throws Response for app sessions, the same as {@link callAsApp}
 */
export async function readStudio<Schema extends z.ZodType>(
  context: AppLoadContext,
  {
    reader,
    name,
    args,
    schema,
    ...timeout
  }: {
    reader: StudioReader;
    name: string;
    args: Record<string, unknown>;
    schema: Schema;
    /** For a function that may take longer than others. Applies to members only. */
    timeoutMs?: number;
  },
): Promise<z.output<Schema>> {
  const { requestId } = context;
  const answer: z.ZodType = z.union([schema, refusal]);
  const read =
    "tokenHash" in reader
      ? await callAsApp(context, {
          caller: reader,
          area: "ai",
          name,
          args: { member_id: null, workspace: reader.workspaceId, ...args },
          schema: answer,
        })
      : await callAsMember(context, { member: reader, name, args, schema: answer, ...timeout });
  if (!isRefusal(read)) return read as z.output<Schema>;
  if (read.outcome === "not_allowed") throw problem("FORBIDDEN", { requestId });
  throw problem("INVALID_REQUEST", { requestId, detail: read.fault });
}

/** Returns whether an answer is a refusal. Checks only the outcome, because the answer has already been parsed. */
function isRefusal(read: unknown): read is z.infer<typeof refusal> {
  const outcome = typeof read === "object" && read !== null && "outcome" in read ? read.outcome : null;
  return outcome === "not_allowed" || outcome === "bad_window";
}

/**
 * Calls a function of schema ai on a member's behalf.
 * @throws Response 404 NOT_FOUND for a malformed workspace id, 503 UNAVAILABLE
 */
export async function callAsMember<Schema extends z.ZodType>(
  context: AppLoadContext,
  options: { member: StudioMember; name: string; args?: object; schema: Schema; timeoutMs?: number },
): Promise<z.output<Schema>> {
  const { member, name, args, schema, timeoutMs } = options;
  const { userId, workspaceId } = member;
  // The workspace id may be any text from a URL, so its format is checked here.
  if (!anyId.safeParse(workspaceId).success) throw problem("NOT_FOUND", { requestId: context.requestId });
  return callFunction(context, {
    name: `ai.${name}`,
    args: { member_id: userId, workspace: workspaceId, ...args },
    schema,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
}

/** Returns whether a call failed without an answer of the database, so that it may have stored something. */
export function isUnavailable(error: unknown): boolean {
  return error instanceof Response && error.status === 503;
}
