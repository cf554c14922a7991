import { type ActionFunctionArgs, type LoaderFunctionArgs, redirect } from "@remix-run/node";
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

/** Reached when a browser returns to a form's URL, for example after a step-up. There is nothing to show here. */
export async function loader({ context }: LoaderFunctionArgs) {
  throw redirect((await getUser(context)) ? linkedAccountsPath : "/login");
}

/** Begins a sign-in with a provider or the linking of a provider's account, and redirects to the provider's page. */
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
  // A person with a pending second step may want to sign in as someone else.
  const user = intent === "prove" || signedIn?.mfa.satisfied ? signedIn : null;
  const returnTo = redirectTarget(returnUrl, { context, fallback: "/" });
  throw redirect(await beginSignIn(context, { provider, returnTo, user, adding }), 303);
}
