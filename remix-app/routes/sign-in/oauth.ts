import { type ActionFunctionArgs, type LoaderFunctionArgs, redirect } from "@remix-run/server-runtime";
import { z } from "zod";
import { readForm } from "../../http/form.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import { beginLink, beginSignIn, requireProvider } from "../../oauth/begin-oauth.ts";
import { getUser, requireFreshUser } from "../../session/user.ts";
import { linkedAccountsPath } from "../../settings/paths.ts";

const startSchema = z.object({
  intent: z.enum(["sign_in", "add", "prove", "link"]).catch("sign_in"),
  returnUrl: z.string().optional(),
});

/** For who comes back to where a form led, as after a step-up: there is nothing to see here. */
export async function loader({ context }: LoaderFunctionArgs) {
  throw redirect((await getUser(context)) ? linkedAccountsPath : "/login");
}

/** Begins a sign-in with a provider, or a link to it, and leads to its page. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const provider = requireProvider(context, params.provider);
  const { intent, returnUrl } = startSchema.parse(Object.fromEntries(await readForm(request, context)));
  if (intent === "link") {
    const user = await requireFreshUser(context, request);
    const returnTo = redirectTarget(returnUrl, { context, fallback: linkedAccountsPath });
    throw redirect(await beginLink(context, { provider, returnTo, user }), 303);
  }
  const adding = intent === "add";
  const signedIn = adding ? null : await getUser(context);
  // Who is at the sign-in page with a second step due may want to be somebody else.
  const user = intent === "prove" || signedIn?.mfa.satisfied ? signedIn : null;
  const returnTo = redirectTarget(returnUrl, { context, fallback: "/" });
  throw redirect(await beginSignIn(context, { provider, returnTo, user, adding }), 303);
}
