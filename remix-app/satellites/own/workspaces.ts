import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { type ProblemCode, problem } from "../../http/problem.ts";
import { centralFetch } from "./app-user.ts";

const listed = z.object({ id: z.uuid(), name: z.string(), role: z.string() });
const shown = listed.extend({ permissions: z.array(z.string()) });

export type OwnWorkspace = z.infer<typeof shown>;

const refusals: Record<number, ProblemCode> = {
  400: "INVALID_REQUEST",
  403: "FORBIDDEN",
  404: "NOT_FOUND",
  429: "RATE_LIMITED",
};

async function read<Schema extends z.ZodType>(
  { requestId }: AppLoadContext,
  { response, schema }: { response: Response; schema: Schema },
): Promise<z.output<Schema>> {
  if (!response.ok) throw problem(refusals[response.status] ?? "UNAVAILABLE", { requestId });
  const answer = schema.safeParse(await response.json().catch(() => undefined));
  if (!answer.success) throw problem("UNAVAILABLE", { requestId });
  return answer.data;
}

const page = z.object({ workspaces: z.array(listed), nextCursor: z.string().nullable().default(null) });

/** A page of the person's workspaces, from the platform; `cursor` is a `nextCursor` of before. */
export async function listOwnWorkspaces(
  context: AppLoadContext,
  { request, cursor }: { request: Request; cursor: string | null },
): Promise<z.infer<typeof page>> {
  const query = cursor === null ? "" : `?${new URLSearchParams({ cursor })}`;
  const response = await centralFetch(context, `/api/v1/workspaces${query}`, { request });
  return read(context, { response, schema: page });
}

/** One of the person's workspaces. @throws Response 404 where there is none such */
export async function readOwnWorkspace(
  context: AppLoadContext,
  { request, id }: { request: Request; id: string | undefined },
): Promise<OwnWorkspace> {
  const response = await centralFetch(context, `/api/v1/workspaces/${encodeURIComponent(id ?? "")}`, { request });
  return read(context, { response, schema: shown });
}

/** Gives a workspace another name, at the platform. @returns false where the name is no good */
export async function renameOwnWorkspace(
  context: AppLoadContext,
  { request, id, name }: { request: Request; id: string | undefined; name: string },
): Promise<boolean> {
  const path = `/api/v1/workspaces/${encodeURIComponent(id ?? "")}`;
  const response = await centralFetch(context, path, { request, method: "PATCH", body: { name } });
  if (response.status === 400) return false;
  await read(context, { response, schema: shown });
  return true;
}
