"""One question answered: charged, run, released, remembered; in as many steps as it takes."""
