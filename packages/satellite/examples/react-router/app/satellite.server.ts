import { createSatellite } from "@gatehouse/satellite/react-router";

export const satellite = createSatellite();
