"""Vision critics: step datasets with screenshots, and a critic that judges clicks on them."""
