import { type Claims, createUser, currentSecond, type Database, enrollFactor, join, signIn } from "./database.ts";

/**
 * The MFA states of a test's actor: the account's policy and what its session has proved. `satisfied` is whether the
 * session satisfies the MFA rule.
 */
export const mfaStates = [
  { mfa: "no policy and no factor", satisfied: true },
  { mfa: "a factor, at AAL1", satisfied: false },
  { mfa: "a factor, at AAL2", satisfied: true },
  { mfa: "required, no factor", satisfied: false },
  { mfa: "required, at AAL1", satisfied: false },
  { mfa: "required, at AAL2", satisfied: true },
  { mfa: "required, at AAL2 of before the boundary", satisfied: false },
  { mfa: "recovery in progress", satisfied: false },
  { mfa: "malformed policy", satisfied: false },
  { mfa: "session over", satisfied: false },
] as const;

export type MfaState = (typeof mfaStates)[number]["mfa"];

/** The built-in roles with their permissions, and a non-member. */
export const workspaceRoles = [
  {
    role: "owner",
    permissions: ["manage_workspace_settings", "manage_members", "manage_ai_keys", "manage_ai_policy", "use_ai_studio"],
  },
  {
    role: "admin",
    permissions: ["manage_workspace_settings", "manage_members", "manage_ai_keys", "manage_ai_policy", "use_ai_studio"],
  },
  { role: "member", permissions: ["use_ai_studio"] },
  { role: "viewer", permissions: [] },
  { role: "outsider", permissions: [] },
] as const;

export type WorkspaceRole = (typeof workspaceRoles)[number]["role"];

/** Every role in every MFA state. */
export const matrix = workspaceRoles.flatMap(({ role, permissions }) =>
  mfaStates.map(({ mfa, satisfied }) => ({ role, permissions: permissions as readonly string[], mfa, satisfied })),
);

/**
 * Creates an account in an MFA state and signs it in. If a role other than outsider is given, adds the account to the
 * workspace.
 */
export async function createActor(
  db: Database,
  {
    workspaceId,
    role = "outsider",
    mfa = "no policy and no factor",
  }: { workspaceId?: string; role?: WorkspaceRole; mfa?: MfaState },
): Promise<Claims> {
  const second = await currentSecond(db);
  const user = await createUser(db, { appMetadata: appMetadataOf(mfa, second) });
  if (workspaceId !== undefined && role !== "outsider") await join(db, { workspaceId, userId: user.id, role });

  const hasFactor = mfa !== "no policy and no factor" && mfa !== "required, no factor";
  const factorId = hasFactor ? await enrollFactor(db, { userId: user.id }) : undefined;
  const stopsAtAal1 = mfa === "a factor, at AAL1" || mfa === "required, at AAL1";
  const claims = await signIn(db, { userId: user.id, ...(stopsAtAal1 ? {} : { factorId }) });
  if (mfa === "session over") await db.query("delete from auth.sessions where id = $1", [claims.session_id]);
  return claims;
}

function appMetadataOf(mfa: MfaState, second: number): object {
  const policy = {
    version: 1,
    required: mfa.startsWith("required"),
    // `signIn` sets the time of the second factor to `second - 1`. A factor used in the same second as the boundary
    // does not count.
    boundary: mfa === "required, at AAL2 of before the boundary" ? second - 1 : second - 60,
    primaryBoundary: null,
    recovery: mfa === "recovery in progress" ? "in_progress" : "none",
    generation: 1,
  };
  if (mfa === "malformed policy") return { platform_required_mfa: { ...policy, version: 2 } };
  return policy.required || policy.recovery === "in_progress" ? { platform_required_mfa: policy } : {};
}

/**
 * Returns the session's claims with its proofs backdated by the given number of seconds. With `method`, backdates only
 * the proofs of that method.
 */
export function older(claims: Claims, { seconds, method }: { seconds: number; method?: string }): Claims {
  const amr = claims.amr.map((proof) =>
    method === undefined || proof.method === method ? { ...proof, timestamp: proof.timestamp - seconds } : proof,
  );
  return { ...claims, amr };
}

/** Creates a shared workspace whose only owner and member is a new account. */
export async function createWorkspace(db: Database): Promise<{ id: string; owner: Claims }> {
  const owner = await createActor(db, {});
  const [workspace] = await db.query<{ id: string }>(
    "insert into public.workspaces (name, created_by) values ('Shared', $1) returning id",
    [owner.sub],
  );
  if (workspace === undefined) throw new Error("no workspace was made");
  return { id: workspace.id, owner };
}

/** Returns the error of a statement that must fail. */
export async function failureOf(work: () => Promise<unknown>): Promise<{ code?: string; message: string }> {
  try {
    await work();
  } catch (error) {
    return error as { code?: string; message: string };
  }
  throw new Error("the statement was allowed");
}
