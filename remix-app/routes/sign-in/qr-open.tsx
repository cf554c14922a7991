import { pageTitle, useBrand } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import dropFragmentScript from "../../ui/drop-fragment.js?raw";
import { EntryPage } from "../../ui/entry-page.tsx";
import { InlineScript } from "../../ui/inline-script.tsx";

export const meta = pageTitle("Open this in the app");

/** Where the link of a QR code leads in a browser: nowhere. Only the app can answer it. */
export default function QrOpenPage() {
  const { name } = useBrand();
  return (
    <>
      <EntryPage
        title="Scan this code with the app"
        lead={`This link only works in the ${name} app. Nothing has happened yet.`}
      >
        <ol className="list-decimal space-y-2 pl-5">
          <li>Open the {name} app on the phone where you are signed in.</li>
          <li>Choose “Scan a code”, and point the camera at the code in your other browser.</li>
          <li>Approve only what you asked for yourself, a moment ago.</li>
        </ol>
        <p className="text-muted">
          Did somebody send you this link? Then do not approve it: they want a session of your account.
        </p>
        <ButtonLink href="/" className="w-full">
          Go to Home
        </ButtonLink>
      </EntryPage>
      <InlineScript source={dropFragmentScript} />
    </>
  );
}
