import { type ActionFunctionArgs, type AppLoadContext, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { formatDateTime } from "../../http/date-text.ts";
import { readForm } from "../../http/form.ts";
import { addReturnUrl } from "../../http/redirect-target.ts";
import {
  type DeviceAuthorization,
  decideDeviceAuthorization,
  findDeviceAuthorization,
} from "../../openid/device/device-authorization.ts";
import { formatUserCode } from "../../openid/device/user-code.ts";
import { getUserLabel, isFresh, requireUser, type User } from "../../session/user.ts";
import { AccountChoices } from "../../ui/account-choices.tsx";
import { EmailAddress } from "../../ui/address.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { FactList } from "../../ui/facts.tsx";
import { Field } from "../../ui/field.tsx";
import { Notice } from "../../ui/notice.tsx";

export const meta = pageTitle("Connect a device");

const codeField = "user_code";

const devicePath = (typed: string) => `/device?${new URLSearchParams({ [codeField]: typed })}`;

/** Shows the device request that a user code belongs to. Opening a link that contains the code approves nothing. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireUser(context, request);
  const typed = new URL(request.url).searchParams.get(codeField) ?? "";
  if (typed === "") return data({ typed, message: null, shown: null });
  const found = await findDeviceAuthorization(context, { user, typed });
  if ("code" in found) return data({ typed, message: found.message, shown: null }, { status: found.status });
  return data({ typed, message: null, shown: describeDeviceRequest(context, { user, found }) });
}

function describeDeviceRequest(context: AppLoadContext, { user, found }: { user: User; found: DeviceAuthorization }) {
  const { state, app, rights, device, address, place, createdAt, userCode } = found;
  return {
    state,
    appName: app.displayName,
    code: formatUserCode(userCode),
    rights,
    facts: [
      ["Code", formatUserCode(userCode)],
      ["Device", device],
      ...(place ? [["Location", place]] : []),
      ...(address ? [["IP address", address]] : []),
      ["Requested", formatDateTime(createdAt)],
      ["Account", getUserLabel(user)],
    ] as [string, string][],
    accountId: user.id,
    email: getUserLabel(user),
    others: context.session.accounts.filter(({ id }) => id !== user.id),
    here: devicePath(userCode),
    fresh: isFresh(user),
  };
}

export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireUser(context, request);
  const form = await readForm(request, context);
  const typed = String(form.get("userCode") ?? "");
  const here = devicePath(typed);
  const decision = form.get("decision");
  // The answer counts only for the account that the page named. Another tab may have switched accounts since.
  if (form.get("accountId") !== user.id || (decision !== "approve" && decision !== "deny")) throw redirect(here, 303);
  if (decision === "approve" && !isFresh(user)) throw redirect(addReturnUrl("/step-up", here), 303);
  const found = await findDeviceAuthorization(context, { user, typed });
  if (!("code" in found) && found.state === "pending") {
    await decideDeviceAuthorization(context, { user, request: found, approve: decision === "approve" });
  }
  throw redirect(here, 303);
}

export default function DevicePage() {
  const { typed, message, shown } = useLoaderData<typeof loader>();
  if (!shown) return <CodeForm typed={typed} message={message} />;
  if (shown.state !== "pending") return <Answered {...shown} />;
  const { appName, code, rights, facts, accountId, email, others, here, fresh } = shown;
  const fields = { accountId, userCode: code };
  return (
    <EntryPage
      title={`Sign in to ${appName} on a device`}
      lead={`A device is asking to sign in to ${appName} with your account.`}
    >
      <Notice tone="warn">
        Only continue if you started this on your own device and it shows this code. Never approve a code that someone
        sent you.
      </Notice>
      <FactList facts={facts} />
      <section aria-labelledby="rights" className="wrap-anywhere space-y-2">
        <h2 id="rights" className="font-medium">
          {appName} will be able to:
        </h2>
        <ul className="list-disc space-y-1 pl-5">
          {rights.map((right) => (
            <li key={right}>{right}</li>
          ))}
        </ul>
        <p className="text-muted">You can disconnect it at any time under Connected apps in your security settings.</p>
      </section>
      <div className="space-y-2">
        {fresh ? null : <p className="text-muted">Before you approve, we’ll ask you to confirm it’s you.</p>}
        <Decision {...fields} decision="approve">
          <Button className="w-full">
            <EmailAddress whole>{`Approve as ${email}`}</EmailAddress>
          </Button>
        </Decision>
        <Decision {...fields} decision="deny">
          <Button variant="secondary" className="w-full">
            Deny
          </Button>
        </Decision>
      </div>
      <AccountChoices accounts={others} returnUrl={here} verb="Continue as" />
      <ButtonLink href={addReturnUrl("/add-account", here)} variant="quiet" className="w-full">
        Use another account
      </ButtonLink>
    </EntryPage>
  );
}

function Decision({
  children,
  ...fields
}: {
  accountId: string;
  userCode: string;
  decision: "approve" | "deny";
  children: React.ReactNode;
}) {
  return (
    <form method="post" action="/device">
      {Object.entries(fields).map(([name, value]) => (
        <input key={name} type="hidden" name={name} value={value} />
      ))}
      {children}
    </form>
  );
}

function CodeForm({ typed, message }: { typed: string; message: string | null }) {
  return (
    <EntryPage title="Connect a device" lead="Enter the code that your device shows.">
      <ErrorSummary id="device-error" fields={{ [codeField]: message }} />
      <form method="get" action="/device" className="space-y-5">
        <Field
          name={codeField}
          label="Code"
          hint="Eight letters, such as WDJB-MJHT."
          error={message}
          defaultValue={typed}
          required
          maxLength={64}
          autoComplete="off"
          autoCapitalize="characters"
          spellCheck={false}
          autoFocus={message === null}
        />
        <Button className="w-full">Continue</Button>
      </form>
    </EntryPage>
  );
}

function Answered({ state, appName }: { state: DeviceAuthorization["state"]; appName: string }) {
  const words = {
    approved: ["Sign-in approved", `${appName} will finish signing in on your device. You can close this page.`],
    denied: ["Sign-in denied", `You denied the request, so ${appName} isn’t signed in on that device.`],
    expired: [
      "This code no longer works",
      "It expired or was already used. To get a new one, start again on the device you’re signing in on.",
    ],
  };
  const [title, lead] = words[state === "pending" ? "expired" : state];
  return (
    <EntryPage title={title} lead={lead}>
      <ButtonLink href={state === "expired" ? "/device" : "/"} variant="primary" className="w-full">
        {state === "expired" ? "Enter another code" : "Go to home page"}
      </ButtonLink>
    </EntryPage>
  );
}
