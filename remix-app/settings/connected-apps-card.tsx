import { buttonClass } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { connectedAppsPath } from "./connected-apps-path.ts";

/** The way to the apps. It names none: to ask for them is their own page's. */
export function ConnectedAppsCard() {
  return (
    <Card
      id="apps"
      title="Connected apps"
      lead="Apps that you signed in to with this account. They hold sessions of their own, which you can end."
      action={
        <a href={connectedAppsPath} className={buttonClass("secondary")}>
          See apps
        </a>
      }
    />
  );
}
