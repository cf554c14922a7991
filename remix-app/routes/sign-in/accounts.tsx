import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { ChevronRight } from "lucide-react";
import { z } from "zod";
import { cookies } from "../../http/cookie-table.ts";
import { writeCookie } from "../../http/cookies.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { addReturnUrl, redirectTarget } from "../../http/redirect-target.ts";
import { describeEnd } from "../../session/end-reason.ts";
import { maxAccounts } from "../../session/sign-in-page.ts";
import { signOutAccount } from "../../session/sign-out.ts";
import {
  accountProblem,
  chooseEntryPath,
  explainMissingDevice,
  parseLastRoute,
  switchAccount,
} from "../../session/switch-account.ts";
import { AccountChoices } from "../../ui/account-choices.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { Notice } from "../../ui/notice.tsx";

export const meta = pageTitle("Your accounts");

/** Lists this browser's accounts, to switch to or sign out of individually. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const { searchParams } = new URL(request.url);
  const { session } = context;
  const returnUrl = redirectTarget(searchParams.get("returnUrl"), { context, fallback: "" });
  // Whether the browser's accounts could not be read, which can happen even with a valid session.
  const unknown = !session.device && explainMissingDevice(context) === "unavailable";
  if (unknown || session.auth.status === "unavailable") throw accountProblem("unavailable", context);
  if (session.accounts.length === 0) throw redirect(addReturnUrl("/login", returnUrl || "/"));
  const full = session.accounts.length >= maxAccounts;
  const accounts = session.accounts.map((account) => ({ ...account, end: describeEnd(account.endReason) }));
  return { accounts, returnUrl, full, refused: full && searchParams.has("full") };
}

const actionSchema = z.object({
  intent: z.enum(["switch", "sign_out"]).default("switch"),
  accountId: z.uuid().optional(),
  returnUrl: z.string().optional(),
  currentRoute: z.string().optional(),
});

/** Switches to an account or signs out of it. Without an id, signs out of the active account. */
export async function action({ request, context }: ActionFunctionArgs) {
  const form = actionSchema.safeParse(Object.fromEntries(await readForm(request, context)));
  if (!form.success) throw problem("INVALID_REQUEST", context);
  const { intent, accountId, ...where } = form.data;
  if (intent === "sign_out") return signOut(context, accountId);
  const { requestId } = context;
  if (accountId === undefined) throw problem("INVALID_REQUEST", { requestId, detail: "Choose an account." });
  return enterAccount(context, { accountId, ...where });
}

async function enterAccount(
  context: AppLoadContext,
  { accountId, returnUrl, currentRoute }: { accountId: string; returnUrl?: string; currentRoute?: string },
) {
  const outcome = await switchAccount(context, { accountId, leaving: parseLastRoute(currentRoute, context) });
  switch (outcome.status) {
    case "switched":
      throw redirect(chooseEntryPath({ targetRoute: returnUrl, lastRoute: outcome.lastRoute, context }), 303);
    case "ended": {
      if (outcome.email) writeCookie(context, cookies.signInHint, { value: outcome.email });
      const page = addReturnUrl("/add-account", redirectTarget(returnUrl, { context, fallback: "/" }));
      throw redirect(`${page}${page.includes("?") ? "&" : "?"}ended`, 303);
    }
    case "no_device":
      throw redirect("/login", 303);
    case "no_account":
      return data({ message: "You’re no longer signed in to that account in this browser." }, { status: 404 });
    case "unavailable":
      return data(
        { message: "We can’t switch accounts right now. You’re still signed in. Try again in a moment." },
        { status: 503 },
      );
  }
}

async function signOut(context: AppLoadContext, accountId: string | undefined) {
  const { auth } = context.session;
  const target = accountId ?? (auth.status === "authenticated" ? auth.claims.sub : null);
  if (target === null) throw redirect("/login", 303);
  const outcome = await signOutAccount(context, target);
  if (outcome.status === "signed_out") throw redirect(outcome.redirectTo, 303);
  if (outcome.status === "no_device") throw redirect("/login", 303);
  if (outcome.status === "no_account") throw redirect("/accounts", 303);
  return data({ message: "We can’t sign you out right now. Try again in a moment." }, { status: 503 });
}

export default function AccountsPage() {
  const { accounts, returnUrl, full, refused } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
  return (
    <EntryPage title="Choose an account" lead="Accounts you’ve used in this browser.">
      <ErrorSummary id="accounts-error" form={failed?.message} />
      {refused ? (
        <Notice tone="warn">
          You can be signed in to at most {accounts.length} accounts in one browser. Sign out of one to add another.
        </Notice>
      ) : null}
      <AccountChoices accounts={accounts} returnUrl={returnUrl} verb="Continue as" />
      {full ? null : (
        <ButtonLink href={addReturnUrl("/add-account", returnUrl || "/")} className="w-full">
          Add another account
        </ButtonLink>
      )}
      <details className="group border-line border-t pt-4">
        <summary className="flex min-h-10 cursor-pointer items-center gap-1.5 rounded-button font-medium text-accent">
          <ChevronRight aria-hidden="true" className="size-4 group-open:rotate-90" />
          Sign out
        </summary>
        <ul className="space-y-2 pt-2">
          {accounts.map(({ id, email, displayName, requiresReauth }) => (
            <li key={id}>
              <form method="post" action="/accounts">
                <input type="hidden" name="intent" value="sign_out" />
                <input type="hidden" name="accountId" value={id} />
                <Button variant="secondary" className="wrap-anywhere w-full">
                  {requiresReauth ? "Remove" : "Sign out of"} {email ?? displayName ?? "this account"}
                  {requiresReauth ? " from this browser" : null}
                </Button>
              </form>
            </li>
          ))}
          <li>
            <form method="post" action="/logout">
              <Button variant="danger" className="w-full">
                Sign out of all accounts
              </Button>
            </form>
          </li>
        </ul>
      </details>
    </EntryPage>
  );
}
