import { type ActionFunctionArgs, type AppLoadContext, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { cookies } from "../../http/cookie-table.ts";
import { clearCookie } from "../../http/cookies.ts";
import { readForm } from "../../http/form.ts";
import { addReturnUrl, redirectTarget } from "../../http/redirect-target.ts";
import { encodeQrCode } from "../../mfa/qr-code.ts";
import { beginHandoff, challengeLink, consumeChallenge } from "../../qr-login/handoff.ts";
import { readChallenge, readChallengeCookie, writeChallengeCookie } from "../../session/challenge.ts";
import { completeSignIn } from "../../session/complete-sign-in.ts";
import { getUserLabel, requireBrowser, requireUser } from "../../session/user.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle, useBrand } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { ChallengeWaiting } from "../../ui/challenge-waiting.tsx";
import { QrCodeImage } from "../../ui/code-fields.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { Notice } from "../../ui/notice.tsx";

export const meta = pageTitle("Confirm it’s you with your phone");

const cookie = cookies.qrChallenge;

function destinationOf(request: Request, context: AppLoadContext): string {
  return redirectTarget(new URL(request.url).searchParams.get("returnUrl"), { context, fallback: "/" });
}

/** Shows the state of the challenge that this browser waits for. Loading the page never consumes the challenge. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireUser(context, request);
  const destination = destinationOf(request, context);
  const shown = { email: getUserLabel(user), destination };
  const key = readChallengeCookie(context, cookie);
  const progress = key && (await readChallenge(context, { kind: "qr", key, sessionId: user.sessionId }));
  if (!key || !progress || typeof progress === "string") return { ...shown, status: "none" as const };
  const { status } = progress;
  if (progress.mintedSessionId === user.sessionId) {
    // This browser already has the challenge's session, but the response that clears the challenge's cookie was lost.
    clearCookie(context, cookie);
    throw redirect(destination);
  }
  if (status !== "created" && status !== "approved") return { ...shown, status };
  const query = new URLSearchParams({ secret: key.secret });
  const pollPath = `/api/v1/auth/qr-login/challenges/${key.id}?${query}`;
  return { ...shown, status, pollPath, qr: encodeQrCode(challengeLink(key, context)) };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const claims = requireBrowser(context);
  const user = await requireUser(context, request);
  const destination = destinationOf(request, context);
  const here = addReturnUrl("/qr", destination);
  if ((await readForm(request, context)).get("intent") !== "continue") {
    writeChallengeCookie(context, cookie, { key: await beginHandoff(context, user) });
    throw redirect(here, 303);
  }
  const key = readChallengeCookie(context, cookie);
  const known =
    key && typeof (await readChallenge(context, { kind: "qr", key, sessionId: user.sessionId })) === "object";
  const consumption = known ? await consumeChallenge(context, { key, claims }) : null;
  if (!consumption?.session) throw redirect(here, 303);
  clearCookie(context, cookie);
  const { session } = consumption;
  throw await completeSignIn(context, { session, method: "qr", destination, inPlaceOf: claims.session_id });
}

const endings = {
  rejected: "The request was rejected on your phone, or the phone is signed out. Show a new code to try again.",
  expired: "That code expired after 2 minutes. Show a new code to try again.",
  consumed: "That code was already used. Show a new code to try again.",
};

export default function QrPage() {
  const shown = useLoaderData<typeof loader>();
  const { email, destination } = shown;
  const open = "qr" in shown;
  const { name } = useBrand();
  return (
    <EntryPage
      title="Confirm it’s you with your phone"
      lead={
        open
          ? `Scan the code with the ${name} app and approve the request there. The code expires in 2 minutes.`
          : `Scan a QR code with the ${name} app and approve the request. You don’t need to type anything.`
      }
    >
      {shown.status in endings ? <Notice tone="warn">{endings[shown.status as keyof typeof endings]}</Notice> : null}
      {"qr" in shown ? (
        <>
          <QrCodeImage {...shown.qr} label={`QR code for the ${name} app`} />
          <ChallengeWaiting status={shown.status} pollPath={shown.pollPath} next={destination} />
        </>
      ) : null}
      <p>
        Signed in as <strong className="font-semibold">{email}</strong>. Your phone must be signed in to the same
        account.
      </p>
      <AccountForm>
        <Button variant={open ? "secondary" : "primary"} name="intent" value="create" className="w-full">
          {shown.status === "none" ? "Show QR code" : "Show a new code"}
        </Button>
      </AccountForm>
      <ButtonLink href={destination} variant="quiet" className="w-full">
        Cancel
      </ButtonLink>
    </EntryPage>
  );
}
