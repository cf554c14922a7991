import { z } from "zod";
import { Failure } from "./failure.ts";
import { callApi } from "./platform.ts";
import type { Login } from "./store.ts";

const page = z.object({
  workspaces: z.array(z.object({ id: z.string(), name: z.string() })),
  nextCursor: z.string().nullable(),
});

/** A workspace of the signed-in person. */
export type Workspace = z.infer<typeof page>["workspaces"][number];

/**
 * Chooses the workspace that a member names by id or name. Without a name, chooses the workspace of the existing
 * connection, or the member's only workspace.
 * @throws Failure if no workspace matches, or several do
 */
export async function chooseWorkspace(
  login: Login,
  { requested, connectedId }: { requested: string | undefined; connectedId: string | undefined },
): Promise<Workspace> {
  const workspaces = await listWorkspaces(login);
  const names = workspaces.map(({ name }) => name).join(", ");
  if (requested === undefined) {
    const only =
      workspaces.find(({ id }) => id === connectedId) ?? (workspaces.length === 1 ? workspaces[0] : undefined);
    if (only) return only;
    throw new Failure("usage", `Name the workspace with --workspace. You’re a member of: ${names}.`);
  }
  const name = requested.trim().toLowerCase();
  const found = workspaces.filter((one) => one.id === name || one.name.toLowerCase() === name);
  const [first, second] = found;
  if (first && second) throw new Failure("usage", `Several workspaces are called ${requested}. Name one by its ID.`);
  if (first) return first;
  throw new Failure("usage", `You have no workspace “${requested}”. You’re a member of: ${names}.`);
}

/** More workspaces than anybody has. A platform whose pages never end would keep the command busy. */
const maxPages = 100;

async function listWorkspaces({ url, accessToken }: Login): Promise<Workspace[]> {
  const all: Workspace[] = [];
  for (let cursor: string | null = "", pages = 0; cursor !== null; pages++) {
    if (pages === maxPages) throw new Failure("refused", `${new URL(url).host} lists workspaces without an end.`);
    const query: string = new URLSearchParams({ limit: "100", ...(cursor && { cursor }) }).toString();
    const read = await callApi(`${url}/api/v1/workspaces?${query}`, { token: accessToken, schema: page });
    all.push(...read.workspaces);
    cursor = read.nextCursor;
  }
  return all;
}
