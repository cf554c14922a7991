import { type ActionFunctionArgs, type AppLoadContext, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { cookies } from "../../http/cookie-table.ts";
import { clearCookie } from "../../http/cookies.ts";
import { readForm } from "../../http/form.ts";
import { addReturnUrl } from "../../http/redirect-target.ts";
import { bindApproval } from "../../mfa/mobile-approval/bind-approval.ts";
import { requestApproval } from "../../mfa/mobile-approval/request-approval.ts";
import { requireSecondStepUser } from "../../mfa/open-step.ts";
import { readChallenge, readChallengeCookie, writeChallengeCookie } from "../../session/challenge.ts";
import { getUserLabel, requireBrowser, secondStepPath } from "../../session/user.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle, useBrand } from "../../ui/brand.ts";
import { Button } from "../../ui/button.tsx";
import { ChallengeWaiting } from "../../ui/challenge-waiting.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { Notice } from "../../ui/notice.tsx";
import { OtherWays } from "../../ui/other-ways.tsx";

export const meta = pageTitle("Approve on your phone");

const cookie = cookies.approvalChallenge;

/** Opens the second step for people who can complete it on a phone, and redirects everyone else. */
async function openApproval(context: AppLoadContext, request: Request) {
  const step = await requireSecondStepUser(context, { request });
  const { mfa } = step.user;
  if (mfa.satisfied) throw redirect(step.destination);
  if (!mfa.enrolled || mfa.policy === "recovery_in_progress") throw redirect(secondStepPath(mfa, step.destination));
  return step;
}

/**
 * Shows the state of the approval that this browser waits for. Loading the page never binds the approval to the
 * session.
 */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const { user, destination } = await openApproval(context, request);
  const shown = { email: getUserLabel(user), destination, codePath: addReturnUrl("/mfa", destination) };
  const key = readChallengeCookie(context, cookie);
  const progress = key && (await readChallenge(context, { kind: "mfa_mobile", key, sessionId: user.sessionId }));
  if (!key || !progress || typeof progress === "string") return { ...shown, status: "none" as const };
  const { status } = progress;
  if (status !== "created" && status !== "approved") return { ...shown, status };
  const query = new URLSearchParams({ secret: key.secret });
  const pollPath = `/api/v1/auth/mfa/mobile/challenges/${key.id}?${query}`;
  return { ...shown, status, pollPath, pairCode: key.shown };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const claims = requireBrowser(context);
  const { user, destination } = await openApproval(context, request);
  const here = addReturnUrl("/mfa/app", destination);
  if ((await readForm(request, context)).get("intent") !== "continue") {
    const approval = await requestApproval(context, user);
    writeChallengeCookie(context, cookie, { key: approval, shown: approval.pairCode });
    throw redirect(here, 303);
  }
  const key = readChallengeCookie(context, cookie);
  const known =
    key && typeof (await readChallenge(context, { kind: "mfa_mobile", key, sessionId: user.sessionId })) === "object";
  if (!known || (await bindApproval(context, { key, claims })).status !== "bound") throw redirect(here, 303);
  clearCookie(context, cookie);
  throw redirect(destination, 303);
}

const endings = {
  rejected: "The request was rejected on a phone. If that wasn’t you, change your password.",
  expired: "The request expired after 5 minutes. Send a new one.",
  locked: "Too many wrong codes were entered on the phone. Send a new request.",
  consumed: "That request was already used. Send a new one.",
  bound: "That approval has expired. Send a new request.",
};

export default function MobileApprovalPage() {
  const shown = useLoaderData<typeof loader>();
  const { email, destination, codePath } = shown;
  const open = "pairCode" in shown;
  const { name } = useBrand();
  return (
    <EntryPage
      title="Approve on your phone"
      lead={
        open
          ? `In the ${name} app, open the request and enter this code. The code expires in 5 minutes.`
          : `Approve this sign-in in the ${name} app, on a phone where you’ve already signed in with a second step.`
      }
    >
      {shown.status in endings ? <Notice tone="warn">{endings[shown.status as keyof typeof endings]}</Notice> : null}
      <p>
        Signing in as <strong className="font-semibold">{email}</strong>.
      </p>
      {"pairCode" in shown ? (
        <>
          <p className="rounded-card border border-line bg-surface py-5 text-center">
            <span className="block text-muted text-small">Code for the {name} app</span>
            <strong className="font-mono font-semibold text-display tracking-widest">
              {shown.pairCode.replace(/^(\d{3})/, "$1 ")}
            </strong>
          </p>
          <ChallengeWaiting status={shown.status} pollPath={shown.pollPath} next={destination} />
        </>
      ) : null}
      <AccountForm>
        <Button variant={open ? "secondary" : "primary"} name="intent" value="create" className="w-full">
          {open ? "Get a new code" : "Send request to my phone"}
        </Button>
      </AccountForm>
      <OtherWays
        ways={[{ to: codePath, label: "Enter a code", hint: "6 digits from your authenticator app." }]}
        help="Didn’t start this sign-in? Reject it on your phone and change your password: someone may know it."
      />
    </EntryPage>
  );
}
