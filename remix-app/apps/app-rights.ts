import type { ConnectedApp } from "./connected-apps.ts";

/**
 * Every scope of an app, with its field and label in the console's forms and a description of what it lets the app's
 * sessions do. The last three are for tokens and depend on each other (aiRight). The database has the same list.
 */
export const appScopes = [
  {
    field: "scopeProfile",
    scope: "profile",
    label: "Profile: see who its users are",
    right: "See your name, email and picture",
  },
  {
    field: "scopeWorkspacesRead",
    scope: "workspaces:read",
    label: "Read workspaces",
    right: "See your workspaces and your role in each",
  },
  {
    field: "scopeWorkspacesWrite",
    scope: "workspaces:write",
    label: "Rename workspaces",
    right: "Rename workspaces whose settings you manage",
  },
  {
    field: "scopeStudioRead",
    scope: "studio:read",
    label: "Read provider costs and invoices",
    right: "See AI costs and invoices of your workspaces",
  },
  {
    field: "scopeStudioKeys",
    scope: "studio:keys",
    label: "Create short-lived API keys",
    right: "Create short-lived API keys in your workspaces",
  },
  {
    field: "scopeWorkspaceSession",
    scope: "workspace:session",
    label: "Act in linked workspaces (external apps only)",
    right: null,
  },
  { field: "scopeAiUse", scope: "ai:use", label: "Use models (external apps only)", right: null },
  { field: "scopeTtsUse", scope: "tts:use", label: "Use speech (external apps only)", right: null },
] as const;

/** Returns descriptions of what an app may do through a session, as shown to the session's owner. */
export function describeSessionRights({ scopes }: { scopes: readonly string[] }): string[] {
  const rights = appScopes.flatMap(({ scope, right }) => (right && scopes.includes(scope) ? [right] : []));
  return scopes.includes("profile") ? rights : ["Recognize your account, without your name or email", ...rights];
}

/** Returns what an app may do through its tokens for one workspace; null if they currently grant nothing. */
export function describeTokenRight({ workspace, scopes }: ConnectedApp["tokens"][number]): string | null {
  return workspace === null ? null : describeAiRight(scopes, workspace);
}

/** Returns what an app will be able to see and do once a person continues to it. */
export function describeAppRights({ scopes }: { scopes: readonly string[] }): string[] {
  const ai = describeAiRight(scopes, "your workspaces that are linked to it");
  return [...describeSessionRights({ scopes }), ...(ai ? [ai] : [])];
}

function describeAiRight(scopes: readonly string[], where: string): string | null {
  if (!scopes.includes("workspace:session") || !scopes.includes("ai:use")) return null;
  return scopes.includes("tts:use")
    ? `Use AI models and speech in ${where}`
    : `Use AI models in ${where}, without speech`;
}

/** Describes what happens when an app is disconnected. */
export function describeDisconnection({ displayName, session, login, consent, tokens }: ConnectedApp): string {
  const effects = [
    session ? `You’ll be signed out of ${displayName} on all devices.` : "",
    // The text doesn't say that the person is signed out, because the app decides whether to end its own session.
    login ? `${displayName} loses access to your account.` : "",
    login?.scopes.includes("studio:keys") ? "Coding agents that it connected stop working." : "",
    consent && !login ? `${displayName} can no longer sign you in without asking.` : "",
    tokens.length > 0 ? `${displayName} can no longer use AI on your behalf.` : "",
    "It keeps data it already has. To reconnect, sign in to it again and allow access.",
  ];
  return effects.filter(Boolean).join(" ");
}
