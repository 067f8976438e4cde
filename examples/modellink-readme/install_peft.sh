pip install peft==0.4.0
