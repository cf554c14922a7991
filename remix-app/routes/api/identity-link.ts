import { type ActionFunctionArgs, redirect } from "@remix-run/node";
import { isForm, readForm } from "../../http/form.ts";
import { readJson } from "../../http/json-body.ts";
import { problem } from "../../http/problem.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import { beginLink, beginPhoneLink, requireProvider } from "../../oauth/begin-oauth.ts";
import { type LinkStart, linkRequest } from "../../session/operations.ts";
import { requireFreshUser } from "../../session/user.ts";
import { linkedAccountsPath } from "../../settings/paths.ts";

/**
 * `POST /api/v1/users/me/identities/link/{provider}`: returns the URL that a browser must open to link an account. A
 * phone also gets the state with which it completes the link.
 */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const provider = requireProvider(context, params.provider);
  const user = await requireFreshUser(context, request);
  const asForm = isForm(request);
  const { requestId } = context;
  const given = asForm
    ? linkRequest.safeParse(Object.fromEntries(await readForm(request, context)))
    : await readJson(request, { schema: linkRequest, requestId }).then((data) => ({ success: true as const, data }));
  if (!given.success) throw problem("INVALID_REQUEST", { requestId });
  const { returnTo: wished } = given.data;
  const { auth } = context.session;
  if (auth.status === "authenticated" && auth.via === "bearer") {
    return Response.json((await beginPhoneLink(context, { provider, returnTo: wished, user })) satisfies LinkStart);
  }
  const returnTo = redirectTarget(wished, { context, fallback: linkedAccountsPath });
  const url = await beginLink(context, { provider, returnTo, user });
  return asForm ? redirect(url, 303) : Response.json({ url } satisfies LinkStart);
}
