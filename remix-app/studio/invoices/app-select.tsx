import { Select } from "../../ui/field.tsx";
import type { LinkedApp } from "./invoice-entry.ts";

/** Renders the choice of the app that costs or an invoice belong to. An only app is selected. */
export function AppSelect({
  apps,
  hint,
  chosen,
  error,
}: {
  apps: readonly LinkedApp[];
  hint: string;
  chosen: string | undefined;
  error: string | undefined;
}) {
  return (
    <Select
      name="appId"
      label="App"
      hint={hint}
      required
      error={error}
      defaultValue={chosen || (apps.length === 1 ? apps[0]?.id : "")}
    >
      {apps.length === 1 ? null : <option value="">Choose</option>}
      {apps.map(({ id, name }) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </Select>
  );
}
