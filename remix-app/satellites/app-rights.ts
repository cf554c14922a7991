import type { ConnectedApp } from "./connected-apps.ts";

/**
 * Every scope of an app: its field in the console's forms, what it is called there, and what it lets the app's sessions
 * do, for the person who is asked. The last three are for tokens, whose rights depend on each other (aiRight). The
 * database has the same list.
 */
export const appScopes = [
  {
    field: "scopeProfile",
    scope: "profile",
    label: "Profile: who its users are",
    right: "Sees your name, email and picture",
  },
  {
    field: "scopeWorkspacesRead",
    scope: "workspaces:read",
    label: "Read workspaces",
    right: "Sees your workspaces and your role in each",
  },
  {
    field: "scopeWorkspacesWrite",
    scope: "workspaces:write",
    label: "Rename workspaces",
    right: "Renames workspaces whose settings you manage",
  },
  {
    field: "scopeStudioRead",
    scope: "studio:read",
    label: "Read provider costs and invoices",
    right: "Sees what AI costs in your workspaces",
  },
  {
    field: "scopeWorkspaceSession",
    scope: "workspace:session",
    label: "Act in linked workspaces (external)",
    right: null,
  },
  { field: "scopeAiUse", scope: "ai:use", label: "Use models (external)", right: null },
  { field: "scopeTtsUse", scope: "tts:use", label: "Use speech (external)", right: null },
] as const;

/** Returns what an app may do by its sessions, in words for their owner. */
export function rightsOfSession({ scopes }: { scopes: readonly string[] }): string[] {
  const rights = appScopes.flatMap(({ scope, right }) => (right && scopes.includes(scope) ? [right] : []));
  return scopes.includes("profile") ? rights : ["Recognizes your account, without your name or email", ...rights];
}

/** Returns what an app may do by its tokens for one workspace. */
export function rightOfToken({ workspace, scopes }: ConnectedApp["tokens"][number]): string {
  if (workspace === null) return "Holds a token for a workspace where it may do nothing now";
  return aiRight(scopes, workspace) ?? `Holds a token for ${workspace} with which it may do nothing now`;
}

/** Returns what an app will be able to see and do once somebody continues to it. */
export function rightsOfApp({ scopes }: { scopes: readonly string[] }): string[] {
  const ai = aiRight(scopes, "those of your workspaces that are linked to it");
  return [...rightsOfSession({ scopes }), ...(ai ? [ai] : [])];
}

function aiRight(scopes: readonly string[], where: string): string | null {
  if (!scopes.includes("workspace:session") || !scopes.includes("ai:use")) return null;
  return scopes.includes("tts:use") ? `Uses AI in ${where}, speech too` : `Uses AI in ${where}, without speech`;
}

/** What disconnecting an app will come to. */
export function effectOfDisconnecting({ session, tokens }: ConnectedApp): string {
  const ends = [
    session ? "You will be signed out of it wherever you use it." : "",
    tokens.length > 0 ? "Its tokens will stop working, so that it can no longer use AI for you." : "",
  ];
  return `${ends.filter(Boolean).join(" ")} What it has stored stays with it. To connect it again, sign in to it.`;
}
