import { pageTitle, useBrand } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import dropFragmentScript from "../../ui/drop-fragment.js?raw";
import { EntryPage } from "../../ui/entry-page.tsx";
import { InlineScript } from "../../ui/inline-script.tsx";

export const meta = pageTitle("Scan the code with the app");

/**
 * The page that opens if a browser follows a QR code's link. It leads nowhere, because only the app can answer the
 * request.
 */
export default function QrOpenPage() {
  const { name } = useBrand();
  return (
    <>
      <EntryPage
        title={`Scan the code with the ${name} app`}
        lead={`The QR code only works in the ${name} app, not in your phone’s camera. No request was approved.`}
      >
        <ol className="list-decimal space-y-2 pl-5">
          <li>Open the {name} app on the phone where you’re signed in.</li>
          <li>Choose “Scan a code”, then point the camera at the QR code on your other device.</li>
          <li>Only approve a request that you just made yourself.</li>
        </ol>
        <p className="text-muted">
          Did someone send you the code or this link? Don’t approve the request: they could get into your account.
        </p>
        <ButtonLink href="/" className="w-full">
          Go to home page
        </ButtonLink>
      </EntryPage>
      <InlineScript source={dropFragmentScript} />
    </>
  );
}
