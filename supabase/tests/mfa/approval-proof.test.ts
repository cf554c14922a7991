import { createHmac, randomBytes, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import {
  bindApproval,
  type Claims,
  createUser,
  currentSecond,
  type Database,
  enrollFactor,
  one,
  signIn,
  test,
} from "../database.ts";
import { beginChallenge, bytea, call, decideMobile, decideQr, poll } from "../sign-in/login-challenge-fixtures.ts";

/** Returns the proof of a session's approval, computed without our server's code. */
function proofOf({ session, key, second }: { session: string; key: Uint8Array; second: number }): string {
  return `${second}.${createHmac("sha256", key).update(`${session} ${second}`).digest("hex")}`;
}

const proofKey = randomBytes(32);

/** Creates a session at AAL1 whose sign-in was approved on a phone. */
async function approvedSession(db: Database) {
  const user = await createUser(db);
  const factorId = await enrollFactor(db, { userId: user.id });
  const claims = await signIn(db, { userId: user.id });
  const second = await currentSecond(db);
  await bindApproval(db, { claims, factorId, secondFactorAt: second - 1, proofKey });
  return { user, factorId, claims, second };
}

type Approved = Awaited<ReturnType<typeof approvedSession>>;

/** The places that apply the MFA rule. Each function returns whether its place admits the session. */
const places: Record<string, (db: Database, approved: Approved, proof?: string) => Promise<boolean>> = {
  "a row of the Data API": (db, { claims }, proof) =>
    asCaller(db, { claims, proof }, async () => {
      return (await db.query("select from public.profiles where id = $1", [claims.sub])).length === 1;
    }),
  "a function of the Data API": (db, { claims }, proof) =>
    asCaller(db, { claims, proof }, () => db.query("select public.create_workspace('Proof')")).then(
      () => true,
      (error: { code: string }) => {
        expect(error.code).toBe("PT403");
        return false;
      },
    ),
  "the state of the session": (db, { claims }, proof) =>
    asCaller(db, { claims, proof }, async () => {
      const { state } = await one(db, { sql: "select public.session_state() as state" });
      return state.policy.satisfied;
    }),
  "the gateway": async (db, { claims, user }, proof) => {
    const { refused } = await one(db, {
      sql: "select refused from ai.session_caller($1, $2)",
      values: [JSON.stringify({ ...claims, approval_proof: proof }), user.personalWorkspaceId],
    });
    if (refused !== null) expect(refused).toBe("MFA_REQUIRED");
    return refused === null;
  },
  "a handoff to an app": async (db, { claims }, proof) => {
    const { answer } = await one(db, {
      sql: "select private.required_mfa_proof($1, 'no-such-app', 60) as answer",
      values: [JSON.stringify({ ...claims, approval_proof: proof })],
    });
    if (answer.refused !== "not_found") expect(answer.refused).toBe("mfa_required");
    return answer.refused === "not_found";
  },
  "the poll of a QR code": async (db, { claims, user, factorId }, proof) => {
    const begun = await beginChallenge(db, { kind: "qr", claims });
    expect(await decideQr(db, { begun, claims: await signIn(db, { userId: user.id, factorId }) })).toBe("approved");
    const asking = { ...claims, approval_proof: proof } as Claims;
    const outcome = await poll<string>(db, "claim_qr_challenge", { begun, claims: asking });
    if (outcome !== "claimed") expect(outcome).toBe("mfa_required");
    return outcome === "claimed";
  },
};

const asCaller = <Result>(
  db: Database,
  { claims, proof }: { claims: Claims; proof: string | undefined },
  work: () => Promise<Result>,
) => db.asUser(claims, work, { headers: proof === undefined ? {} : { "x-mfa-approval": proof } });

describe.for(Object.entries(places))("the proof of a mobile approval: %s", ([, isLetIn]) => {
  test("an approval is valid only with a proof made with its key", async ({ db }) => {
    const approved = await approvedSession(db);
    const proof = proofOf({ session: approved.claims.session_id, key: proofKey, second: approved.second });
    expect(await isLetIn(db, approved)).toBe(false);
    expect(await isLetIn(db, approved, proof)).toBe(true);
  });
});

const row = places["a row of the Data API"] as (typeof places)[string];

describe("an approval's proof", () => {
  test.for([
    [-61, false],
    [-60, true],
    [60, true],
    [61, false],
  ] as const)("an approval proof whose timestamp is off by %i s is accepted: %s", async ([seconds, counts], { db }) => {
    const approved = await approvedSession(db);
    const { claims, second } = approved;
    const proof = proofOf({ session: claims.session_id, key: proofKey, second: second + seconds });
    expect(await row(db, approved, proof)).toBe(counts);
  });

  test.for([
    [
      "signed with another key",
      (_: string, { claims, second }: Approved) =>
        proofOf({ session: claims.session_id, key: randomBytes(32), second }),
    ],
    [
      "from another session",
      (_: string, { second }: Approved) => proofOf({ session: randomUUID(), key: proofKey, second }),
    ],
    ["with another timestamp", (good: string, { second }: Approved) => good.replace(/^\d+/, String(second + 1))],
    ["in upper case", (good: string) => good.toUpperCase()],
    ["that is one digit short", (good: string) => good.slice(0, -1)],
    ["that is one digit too long", (good: string) => `${good}0`],
    ["without its timestamp", (good: string) => good.replace(/^\d+\./, "")],
    ["with a non-ASCII digit in its timestamp", (good: string) => good.replace(/^\d/, "١")],
    ["with a trailing newline", (good: string) => `${good}\n`],
    ["that is empty", () => ""],
    ["that is an SQL injection attempt", () => `"'; select 1`],
  ] as const)("refuses an approval proof %s", async ([, forge], { db }) => {
    const approved = await approvedSession(db);
    const good = proofOf({ session: approved.claims.session_id, key: proofKey, second: approved.second });
    expect(await row(db, approved, good)).toBe(true);
    expect(await row(db, approved, forge(good, approved))).toBe(false);
  });

  test("an approval proof for one session is not valid for another approved session of the account", async ({ db }) => {
    const approved = await approvedSession(db);
    const { user, factorId, second } = approved;
    const sibling = await signIn(db, { userId: user.id });
    await bindApproval(db, { claims: sibling, factorId, secondFactorAt: second - 1, proofKey: randomBytes(32) });
    const proof = proofOf({ session: approved.claims.session_id, key: proofKey, second });
    expect(await row(db, approved, proof)).toBe(true);
    expect(await row(db, { ...approved, claims: sibling }, proof)).toBe(false);
  });

  test("an approval proof is no longer valid once the phone's authenticator is removed, even if another authenticator remains", async ({
    db,
  }) => {
    const approved = await approvedSession(db);
    const { user, factorId, claims, second } = approved;
    const proof = proofOf({ session: claims.session_id, key: proofKey, second });
    expect(await row(db, approved, proof)).toBe(true);
    await enrollFactor(db, { userId: user.id });
    await db.query("delete from auth.mfa_factors where id = $1", [factorId]);
    expect(await row(db, approved, proof)).toBe(false);
  });

  test("an approval proof has no effect in a session without an approval", async ({ db }) => {
    const user = await createUser(db);
    await enrollFactor(db, { userId: user.id });
    const claims = await signIn(db, { userId: user.id });
    const second = await currentSecond(db);
    const proof = proofOf({ session: claims.session_id, key: proofKey, second });
    expect(await row(db, { user, factorId: "", claims, second }, proof)).toBe(false);
  });

  test("an approval proof in a token's claim has no effect without the x-mfa-approval header", async ({ db }) => {
    const approved = await approvedSession(db);
    const proof = proofOf({ session: approved.claims.session_id, key: proofKey, second: approved.second });
    const claims = { ...approved.claims, approval_proof: proof } as Claims;
    expect(await row(db, { ...approved, claims })).toBe(false);
  });
});

describe("binding an approval", () => {
  async function begin(db: Database) {
    const user = await createUser(db);
    const factorId = await enrollFactor(db, { userId: user.id });
    const browser = await signIn(db, { userId: user.id });
    const begun = await beginChallenge(db, { kind: "mfa_mobile", claims: browser });
    await decideMobile(db, { begun, claims: await signIn(db, { userId: user.id, factorId }) });
    const bind = (more: object, proof?: string) =>
      call(db, "bind_mobile_approval", {
        id: begun.id,
        secretHash: bytea(begun.secret),
        claims: { ...browser, approval_proof: proof },
        ...more,
      });
    const kept = async () =>
      (await one(db, { sql: "select proof_key from private.login_challenges where id = $1", values: [begun.id] }))
        .proof_key;
    return { browser, bind, kept, second: await currentSecond(db) };
  }
  const hex = (bytes: Uint8Array) => `\\x${Buffer.from(bytes).toString("hex")}`;

  test("binding a mobile approval accepts a proof that was made with the given key, and stores the key", async ({
    db,
  }) => {
    const { browser, bind, kept, second } = await begin(db);
    const proof = proofOf({ session: browser.session_id, key: proofKey, second });
    expect(await bind({ proofKey: hex(proofKey) }, proof)).toMatchObject({ status: "bound" });
    expect(await kept()).toEqual(proofKey);
  });

  test("binding a mobile approval rejects a proof that was made with another key, and stores no key", async ({
    db,
  }) => {
    const { browser, bind, kept, second } = await begin(db);
    const proof = proofOf({ session: browser.session_id, key: randomBytes(32), second });
    expect(await bind({ proofKey: hex(proofKey) }, proof)).toEqual({ status: "rejected", validUntil: null });
    expect(await kept()).toBeNull();
  });

  test("binding a mobile approval to a session rejects a proof key of 31 bytes", async ({ db }) => {
    const { bind } = await begin(db);
    await expect(bind({ proofKey: hex(randomBytes(31)) })).rejects.toThrow(/proof_key/);
  });
});
