import type { ConnectedApp } from "../satellites/connected-apps.ts";

/** What each scope lets an app's session do, in this order. */
const sessionRights = [
  ["profile", "Sees your name, email and picture"],
  ["workspaces:read", "Sees your workspaces and your role in each"],
  ["workspaces:write", "Renames workspaces whose settings you manage"],
  ["studio:read", "Sees what AI costs in your workspaces"],
] as const;

/** What an app may do by its sessions, in words for their owner. */
export function rightsOfSession({ scopes }: NonNullable<ConnectedApp["session"]>): string[] {
  const rights = sessionRights.filter(([scope]) => scopes.includes(scope)).map(([, words]) => words);
  return scopes.includes("profile") ? rights : ["Recognizes your account, without your name or email", ...rights];
}

/** What an app may do by its tokens for one workspace. */
export function rightOfToken({ workspace, scopes }: ConnectedApp["tokens"][number]): string {
  if (workspace === null) return "Holds a token for a workspace where it may do nothing now";
  if (!scopes.includes("workspace:session") || !scopes.includes("ai:use"))
    return `Holds a token for ${workspace} with which it may do nothing now`;
  return scopes.includes("tts:use") ? `Uses AI in ${workspace}, speech too` : `Uses AI in ${workspace}, without speech`;
}

/** What disconnecting an app will come to. */
export function effectOfDisconnecting({ session, tokens }: ConnectedApp): string {
  const ends = [
    session ? "You will be signed out of it wherever you use it." : "",
    tokens.length > 0 ? "Its tokens will stop working, so that it can no longer use AI for you." : "",
  ];
  return `${ends.filter(Boolean).join(" ")} What it has stored stays with it. To connect it again, sign in to it.`;
}
