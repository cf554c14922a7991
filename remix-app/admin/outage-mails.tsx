import { AccountForm } from "../ui/account-form.tsx";
import { Button } from "../ui/button.tsx";

/** Renders the button with which a person of the console turns their emails about outages on or off. */
export function OutageMailsForm({ isOn }: { isOn: boolean }) {
  return (
    <AccountForm>
      <input type="hidden" name="outages" value={isOn ? "off" : "on"} />
      <Button variant="secondary">{isOn ? "Stop these emails" : "Email me about outages"}</Button>
    </AccountForm>
  );
}
