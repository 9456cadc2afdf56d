"""Critics that see: step datasets with screenshots, and the critic that judges clicks on them."""
