import type { LoaderFunctionArgs } from "@remix-run/node";
import { problem } from "../../http/problem.ts";
import { type AccountList, accountList } from "../../session/account-operations.ts";
import { accountProblem } from "../../session/switch-account.ts";
import { getUser } from "../../session/user.ts";

/** `GET /api/v1/auth/accounts`: lists the accounts of this browser, or only the token's account for a bearer token. */
export async function loader({ context }: LoaderFunctionArgs) {
  const { session, requestId } = context;
  const { auth, device, accounts } = session;
  if (auth.status === "unavailable") throw accountProblem("unavailable", context);
  if (device) {
    const activeAccountId = accounts.find(({ active }) => active)?.id ?? null;
    return Response.json(accountList.parse({ activeAccountId, accounts }));
  }
  const user = await getUser(context);
  if (!user || auth.status !== "authenticated") {
    throw problem("UNAUTHENTICATED", { requestId, headers: { "WWW-Authenticate": "Bearer" } });
  }
  const { iat, amr } = auth.claims;
  const timeOf = (seconds: number) => new Date(seconds * 1000).toISOString();
  const { id, email, displayName, avatarUrl } = user;
  const account = {
    id,
    email,
    displayName,
    avatarUrl,
    active: true,
    requiresReauth: false,
    lastRoute: null,
    lastActiveAt: timeOf(iat),
    addedAt: timeOf(Math.min(iat, ...amr.map(({ timestamp }) => timestamp))),
  };
  return Response.json({ activeAccountId: id, accounts: [account] } satisfies AccountList);
}
