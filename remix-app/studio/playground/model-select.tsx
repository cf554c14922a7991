import { Select } from "../../ui/field.tsx";
import type { PlaygroundModel } from "./list-models.ts";

/** Which of a panel's models is asked. */
export function ModelSelect({ models, chosen }: { models: readonly PlaygroundModel[]; chosen: string | undefined }) {
  return (
    <Select name="model" label="Model" defaultValue={chosen}>
      {models.map(({ id, name }) => (
        <option key={id} value={id}>
          {name === id ? id : `${name} (${id})`}
        </option>
      ))}
    </Select>
  );
}
